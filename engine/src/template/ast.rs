//! A parsed template. Every mistake that does not depend on data has been found.

use super::aggregate::Aggregate;
use super::format::Format;

/// Steps in order.
pub(super) type Block = Vec<Step>;

/// The place of a variable in the frame; 0 is `$`.
pub(super) type Slot = usize;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Text(Box<str>),
    Print(Expr),
    Set(Slot, Expr),
    If { bind: Option<Slot>, test: Expr, then: Block, or_else: Block },
    With { bind: Option<Slot>, value: Expr, then: Block, or_else: Block },
    Range { key: Option<Slot>, element: Option<Slot>, over: Expr, each: Block, or_else: Block },
    Break,
    Continue,
}

/// A pipeline is a nested call: `.a | f 1` is `f(1, .a)`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
    Dot,
    Variable(Slot),
    Path(Box<Expr>, Vec<Box<str>>),
    Text(Box<str>),
    Number(Box<str>),
    Bool(bool),
    Nil,
    Call(Function, Vec<Expr>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Function {
    And,
    Or,
    Not,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Len,
    Index,
    Print,
    Println,
    Printf(Format),
    Aggregate(Aggregate),
}
