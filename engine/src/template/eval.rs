//! Runs a parsed template. Data never makes it fail; only limits do.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::aggregate::Aggregate;
use super::ast::{Block, Expr, Function, Slot, Step};
use super::value::{Value, members};
use super::{Meter, RenderError, Template};
use crate::json::{self, Node};

/// How the loop around a step continues.
#[derive(PartialEq)]
enum Flow {
    Next,
    Break,
    Continue,
}

pub(super) struct Evaluator<'v, 'o, 'w> {
    frame: Vec<Value<'v>>,
    dot: Value<'v>,
    out: &'o mut String,
    meter: &'o mut Meter<'w>,
}

impl<'v, 'o, 'w> Evaluator<'v, 'o, 'w> {
    pub(super) fn run(
        template: &'v Template,
        dot: &'v Node<'v>,
        out: &'o mut String,
        meter: &'o mut Meter<'w>,
    ) -> Result<(), RenderError> {
        let dot = Value::of(dot);
        let mut frame = vec![Value::Nil; template.slots];
        if let Some(root) = frame.first_mut() {
            *root = dot.clone();
        }
        let mut evaluator = Evaluator { frame, dot, out, meter };
        evaluator.block(&template.steps).map(drop)
    }

    fn block(&mut self, steps: &'v Block) -> Result<Flow, RenderError> {
        for step in steps {
            let flow = self.step(step)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn step(&mut self, step: &'v Step) -> Result<Flow, RenderError> {
        self.meter.spend(1)?;
        match step {
            Step::Text(text) => self.emit(text)?,
            Step::Print(expr) => {
                let value = self.eval(expr)?;
                self.print(&value)?;
            }
            Step::Set(slot, expr) => {
                let value = self.eval(expr)?;
                self.set(Some(*slot), &value)?;
            }
            Step::If { bind, test, then, or_else } => {
                let value = self.eval(test)?;
                self.set(*bind, &value)?;
                return self.block(if value.is_true() { then } else { or_else });
            }
            Step::With { bind, value, then, or_else } => {
                let value = self.eval(value)?;
                self.set(*bind, &value)?;
                if !value.is_true() {
                    return self.block(or_else);
                }
                return self.inside(value, then);
            }
            Step::Range { key, element, over, each, or_else } => {
                return self.range((*key, *element), over, each, or_else);
            }
            Step::Break => return Ok(Flow::Break),
            Step::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    /// Runs a block with another dot.
    fn inside(&mut self, dot: Value<'v>, steps: &'v Block) -> Result<Flow, RenderError> {
        let outer = std::mem::replace(&mut self.dot, dot);
        let flow = self.block(steps);
        self.dot = outer;
        flow
    }

    fn range(
        &mut self,
        (key, element): (Option<Slot>, Option<Slot>),
        over: &'v Expr,
        each: &'v Block,
        or_else: &'v Block,
    ) -> Result<Flow, RenderError> {
        let value = self.eval(over)?;
        self.meter.spend(value.weight())?;
        let Value::Node(node) = value else { return self.block(or_else) };
        let mut empty = true;
        let mut turn = |this: &mut Self, at: Value<'v>, node: &'v Node<'v>| {
            empty = false;
            let value = Value::of(node);
            this.set(key, &at)?;
            this.set(element, &value)?;
            this.inside(value, each)
        };
        match node {
            Node::Array(elements) => {
                for (index, node) in elements.iter().enumerate() {
                    if turn(self, Value::Number(index.to_string().into()), node)? == Flow::Break {
                        break;
                    }
                }
            }
            _ => {
                for (name, node) in members(node) {
                    if turn(self, Value::Text(name), node)? == Flow::Break {
                        break;
                    }
                }
            }
        }
        if empty { self.block(or_else) } else { Ok(Flow::Next) }
    }

    fn set(&mut self, slot: Option<Slot>, value: &Value<'v>) -> Result<(), RenderError> {
        if let Some(place) = slot.and_then(|slot| self.frame.get_mut(slot)) {
            *place = value.clone();
            // A variable may hold a text that the template made: the steps that it costs bound the memory.
            self.meter.spend(value.weight() / 4)?;
        }
        Ok(())
    }

    fn emit(&mut self, text: &str) -> Result<(), RenderError> {
        let room = self.meter.room(self.out.len() + text.len());
        let fitting = if room.is_ok() { text.len() } else { self.meter.bytes.saturating_sub(self.out.len()) };
        self.out.push_str(&text[..text.floor_char_boundary(fitting)]);
        room
    }

    fn print(&mut self, value: &Value<'v>) -> Result<(), RenderError> {
        match value {
            Value::Node(node) => {
                self.meter.room(self.out.len() + json::compact_len(node))?;
                json::write(node, self.out);
                Ok(())
            }
            value => self.emit(&value.to_text()),
        }
    }

    fn eval(&mut self, expr: &'v Expr) -> Result<Value<'v>, RenderError> {
        let value = match expr {
            Expr::Dot => self.dot.clone(),
            Expr::Variable(slot) => self.frame.get(*slot).cloned().unwrap_or(Value::Nil),
            Expr::Path(base, names) => {
                let mut value = self.eval(base)?;
                for name in names {
                    self.meter.spend(1 + value.weight() / 16)?;
                    value = value.field(name);
                }
                value
            }
            Expr::Text(text) => Value::Text(Cow::Borrowed(text)),
            Expr::Number(digits) => Value::Number(Cow::Borrowed(digits)),
            Expr::Bool(value) => Value::Bool(*value),
            Expr::Nil => Value::Nil,
            Expr::Call(function, arguments) => self.call(function, arguments)?,
        };
        self.meter.spend(1 + value.weight() / 64)?;
        Ok(value)
    }

    fn call(&mut self, function: &'v Function, arguments: &'v [Expr]) -> Result<Value<'v>, RenderError> {
        // `and` and `or` evaluate no further than they must.
        if let Function::And | Function::Or = function {
            let stop = *function == Function::Or;
            let mut last = Value::Nil;
            for argument in arguments {
                last = self.eval(argument)?;
                if last.is_true() == stop {
                    break;
                }
            }
            return Ok(last);
        }
        if let (Function::Aggregate(aggregate), [argument]) = (function, arguments) {
            return self.aggregate(*aggregate, argument);
        }
        let values = arguments.iter().map(|argument| self.eval(argument)).collect::<Result<Vec<_>, _>>()?;
        let (first, second) = (values.first().unwrap_or(&Value::Nil), values.get(1).unwrap_or(&Value::Nil));
        let ordered =
            |wanted: &[Ordering]| Value::Bool(first.order(second).is_some_and(|order| wanted.contains(&order)));
        Ok(match function {
            Function::And | Function::Or | Function::Aggregate(_) => Value::Nil,
            Function::Not => Value::Bool(!first.is_true()),
            Function::Eq => Value::Bool(values[1..].iter().any(|other| first.equals(other))),
            Function::Ne => Value::Bool(!first.equals(second)),
            Function::Lt => ordered(&[Ordering::Less]),
            Function::Le => ordered(&[Ordering::Less, Ordering::Equal]),
            Function::Gt => ordered(&[Ordering::Greater]),
            Function::Ge => ordered(&[Ordering::Greater, Ordering::Equal]),
            Function::Len => Value::Number(first.length().to_string().into()),
            Function::Index => {
                let mut value = first.clone();
                for key in &values[1..] {
                    self.meter.spend(1 + value.weight() / 16)?;
                    value = value.at(key);
                }
                value
            }
            Function::Print => self.text(joined(&values))?,
            Function::Println => {
                let texts: Vec<Cow<'_, str>> = values.iter().map(Value::to_text).collect();
                self.text(format!("{}\n", texts.join(" ")))?
            }
            Function::Printf(format) => self.text(format.render(&values))?,
        })
    }

    /// Summarizes the values at `argument`, which maps over lists.
    fn aggregate(&mut self, aggregate: Aggregate, argument: &'v Expr) -> Result<Value<'v>, RenderError> {
        let (base, names) = match argument {
            Expr::Path(base, names) => (&**base, names.as_slice()),
            whole => (whole, [].as_slice()),
        };
        let base = self.eval(base)?;
        let mut values = Vec::new();
        self.scalars(base, names, &mut values)?;
        self.text(aggregate.of(&values))
    }

    /// Collects the scalars that a path finds. A list on the way stands for its elements.
    fn scalars(
        &mut self,
        value: Value<'v>,
        names: &'v [Box<str>],
        found: &mut Vec<Value<'v>>,
    ) -> Result<(), RenderError> {
        self.meter.spend(1 + value.weight() / 16)?;
        match (&value, names.split_first()) {
            (Value::Nil, _) => Ok(()),
            (Value::Node(Node::Array(elements)), _) => {
                elements.iter().try_for_each(|element| self.scalars(Value::of(element), names, found))
            }
            (Value::Node(_), Some((name, rest))) => self.scalars(value.field(name), rest, found),
            (Value::Node(_), None) | (_, Some(_)) => Ok(()),
            (_, None) => {
                found.push(value);
                Ok(())
            }
        }
    }

    /// Returns a text that the template made; it may not be longer than a rendering may be.
    fn text(&mut self, text: String) -> Result<Value<'v>, RenderError> {
        self.meter.room(text.len())?;
        self.meter.spend(text.len() / 4)?;
        Ok(Value::Text(text.into()))
    }
}

/// Joins values as Go's `print` does: with a space between two values if neither is text.
fn joined(values: &[Value<'_>]) -> String {
    let mut out = String::new();
    let apart = |value: &Value<'_>| !matches!(value, Value::Text(_) | Value::Nil);
    for (index, value) in values.iter().enumerate() {
        if index > 0 && apart(&values[index - 1]) && apart(value) {
            out.push(' ');
        }
        out.push_str(&value.to_text());
    }
    out
}
