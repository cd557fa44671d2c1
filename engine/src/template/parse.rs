//! Parses tokens into steps. Variables become slots, pipelines become calls, and formats are parsed.

use super::aggregate::Aggregate;
use super::ast::{Block, Expr, Function, Slot, Step};
use super::format::Format;
use super::lex::{Kind, Piece, Token, lex};
use super::{MAX_NESTING, TemplateError};

/// A parsed template, and the size of its frame of variables.
pub(super) struct Parsed {
    pub(super) steps: Block,
    pub(super) slots: usize,
    /// The fields of `$` that the template reads, by their first names: `.Total` for `{{.Total}}`.
    pub(super) fields: Vec<(Box<str>, usize)>,
}

/// What the outermost dot of a template is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dot {
    /// Any value.
    Any,
    /// A list of items: [`Aggregate`] functions are known.
    Items,
}

pub(super) fn parse(source: &str, dot: Dot) -> Result<Parsed, TemplateError> {
    let pieces = lex(source)?;
    let mut parser = Parser {
        pieces: pieces.into_iter(),
        scope: vec![("", 0)],
        slots: 1,
        depth: 0,
        loops: 0,
        dot_is_root: true,
        dot,
        fields: Vec::new(),
        aggregated: Vec::new(),
    };
    let (steps, end) = parser.block()?;
    match (dot, parser.fields.first()) {
        (Dot::Items, Some((name, offset))) => {
            return Err(TemplateError::new(
                *offset,
                format!("the list of items has no field .{name}"),
                format!("write {{{{counts .{name}}}}}, or {{{{range .}}}}{{{{.{name}}}}}{{{{end}}}}"),
            ));
        }
        (Dot::Items, None) => parser.fields = parser.aggregated,
        (Dot::Any, _) => {}
    }
    match end {
        Stop::Source => Ok(Parsed { steps, slots: parser.slots, fields: parser.fields }),
        Stop::Else(tokens) => Err(stray(&tokens, "else")),
        Stop::End(offset) => Err(TemplateError::new(offset, "an {{end}} ends nothing", "remove it")),
    }
}

/// The action at which a block ended.
enum Stop<'s> {
    Source,
    End(usize),
    /// `else`, with the tokens of its action.
    Else(Vec<Token<'s>>),
}

struct Parser<'s> {
    pieces: std::vec::IntoIter<Piece<'s>>,
    scope: Vec<(&'s str, Slot)>,
    slots: usize,
    depth: usize,
    loops: usize,
    dot_is_root: bool,
    dot: Dot,
    fields: Vec<(Box<str>, usize)>,
    /// The fields of the list of items that are arguments of an [`Aggregate`].
    aggregated: Vec<(Box<str>, usize)>,
}

impl<'s> Parser<'s> {
    fn block(&mut self) -> Result<(Block, Stop<'s>), TemplateError> {
        let mut steps = Vec::new();
        while let Some(piece) = self.pieces.next() {
            match piece {
                Piece::Text(text) => steps.push(Step::Text(text.into())),
                Piece::Action(tokens, start) => match keyword(&tokens) {
                    Some("end") if tokens.len() == 1 => return Ok((steps, Stop::End(start))),
                    Some("else") => return Ok((steps, Stop::Else(tokens))),
                    _ => steps.push(self.action(&tokens, start)?),
                },
            }
        }
        Ok((steps, Stop::Source))
    }

    fn action(&mut self, tokens: &[Token<'s>], start: usize) -> Result<Step, TemplateError> {
        let rest = tokens.get(1..).unwrap_or_default();
        match keyword(tokens) {
            Some("range") if self.is_aggregate(rest) => self.statement(tokens, start),
            Some("if" | "with" | "range") => self.control(tokens, start),
            Some(word @ ("break" | "continue")) => {
                if !rest.is_empty() {
                    return Err(extra(&rest[0]));
                }
                if self.loops == 0 {
                    return Err(TemplateError::new(start, format!("{{{{{word}}}}} is not in a range"), "remove it"));
                }
                Ok(if word == "break" { Step::Break } else { Step::Continue })
            }
            Some("end") => Err(extra(&tokens[1])),
            Some(word @ ("define" | "template" | "block")) => Err(TemplateError::new(
                start,
                format!("{{{{{word}}}}} is not known here"),
                "write the text where it is used",
            )),
            _ => self.statement(tokens, start),
        }
    }

    /// Returns whether `range` before these tokens is the function: a list of items has no field to loop over.
    fn is_aggregate(&self, rest: &[Token<'s>]) -> bool {
        let of_items = match rest {
            [Token { kind: Kind::Field(_), .. }, ..] => self.dot_is_root,
            [Token { kind: Kind::Variable(""), .. }, Token { kind: Kind::Field(_), glued: true, .. }, ..] => true,
            _ => false,
        };
        self.dot == Dot::Items && of_items
    }

    /// Parses an assignment, or a pipeline to print.
    fn statement(&mut self, tokens: &[Token<'s>], start: usize) -> Result<Step, TemplateError> {
        match tokens {
            [Token { kind: Kind::Variable(name), .. }, Token { kind: Kind::Declare, .. }, rest @ ..] => {
                let value = self.whole(rest, start)?;
                Ok(Step::Set(self.declare(name), value))
            }
            [Token { kind: Kind::Variable(name), offset, .. }, Token { kind: Kind::Assign, .. }, rest @ ..] => {
                let slot = self.variable(name, *offset)?;
                Ok(Step::Set(slot, self.whole(rest, start)?))
            }
            _ => Ok(Step::Print(self.whole(tokens, start)?)),
        }
    }

    fn control(&mut self, tokens: &[Token<'s>], start: usize) -> Result<Step, TemplateError> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(TemplateError::new(start, format!("blocks nest more than {MAX_NESTING} deep"), "simplify it"));
        }
        let scope = self.scope.len();
        let root = self.dot_is_root;
        let word = keyword(tokens).unwrap_or_default();
        let rest = &tokens[1..];
        let step = if word == "range" {
            let (key, element, over) = self.range_clause(rest, start)?;
            self.loops += 1;
            self.dot_is_root = false;
            let (each, end) = self.block()?;
            self.loops -= 1;
            self.dot_is_root = root;
            let or_else = self.otherwise(end, "range", start)?;
            Step::Range { key, element, over, each, or_else }
        } else {
            let (bind, value) = self.clause(rest, start)?;
            self.dot_is_root = root && word == "if";
            let (then, end) = self.block()?;
            self.dot_is_root = root;
            let or_else = self.otherwise(end, word, start)?;
            if word == "if" {
                Step::If { bind, test: value, then, or_else }
            } else {
                Step::With { bind, value, then, or_else }
            }
        };
        self.scope.truncate(scope);
        self.depth -= 1;
        Ok(step)
    }

    /// Parses what follows a block: nothing, `else`, or `else if` and the like, which share the `end`.
    fn otherwise(&mut self, end: Stop<'s>, word: &str, start: usize) -> Result<Block, TemplateError> {
        let tokens = match end {
            Stop::End(_) => return Ok(Vec::new()),
            Stop::Source => {
                return Err(TemplateError::new(start, format!("{{{{{word}}}}} has no end"), "add {{end}}"));
            }
            Stop::Else(tokens) => tokens,
        };
        let start = tokens[0].offset;
        match tokens.get(1) {
            None => match self.block()? {
                (steps, Stop::End(_)) => Ok(steps),
                (_, Stop::Else(tokens)) => Err(stray(&tokens, "else")),
                (_, Stop::Source) => Err(TemplateError::new(start, "{{else}} has no end", "add {{end}}")),
            },
            Some(Token { kind: Kind::Identifier(next), .. }) if *next == word && word != "range" => {
                Ok(vec![self.control(&tokens[1..], start)?])
            }
            Some(token) => Err(extra(token)),
        }
    }

    /// Parses `pipeline` or `$x := pipeline` after `if` and `with`.
    fn clause(&mut self, tokens: &[Token<'s>], start: usize) -> Result<(Option<Slot>, Expr), TemplateError> {
        match self.statement(tokens, start)? {
            Step::Set(slot, value) => Ok((Some(slot), value)),
            Step::Print(value) => Ok((None, value)),
            _ => unreachable!("a statement sets or prints"),
        }
    }

    /// As [`Self::clause`], and also `$key, $element :=`.
    fn range_clause(
        &mut self,
        tokens: &[Token<'s>],
        start: usize,
    ) -> Result<(Option<Slot>, Option<Slot>, Expr), TemplateError> {
        let [
            Token { kind: Kind::Variable(key), offset: at_key, .. },
            Token { kind: Kind::Comma, .. },
            Token { kind: Kind::Variable(element), offset: at_element, .. },
            Token { kind: sign @ (Kind::Declare | Kind::Assign), .. },
            rest @ ..,
        ] = tokens
        else {
            let (element, over) = self.clause(tokens, start)?;
            return Ok((None, element, over));
        };
        let over = self.whole(rest, start)?;
        let (key, element) = if *sign == Kind::Declare {
            (self.declare(key), self.declare(element))
        } else {
            (self.variable(key, *at_key)?, self.variable(element, *at_element)?)
        };
        Ok((Some(key), Some(element), over))
    }

    fn declare(&mut self, name: &'s str) -> Slot {
        let slot = self.slots;
        self.slots += 1;
        self.scope.push((name, slot));
        slot
    }

    fn variable(&self, name: &str, offset: usize) -> Result<Slot, TemplateError> {
        self.scope.iter().rev().find(|(known, _)| *known == name).map(|&(_, slot)| slot).ok_or_else(|| {
            TemplateError::new(
                offset,
                format!("${name} is not declared here"),
                format!("declare it: {{{{${name} := ..}}}}"),
            )
        })
    }

    /// Parses a pipeline that must take all of `tokens`.
    fn whole(&mut self, tokens: &[Token<'s>], start: usize) -> Result<Expr, TemplateError> {
        let mut pipeline = Pipeline { parser: self, tokens, at: 0, depth: 0, start };
        let expr = pipeline.run()?;
        match tokens.get(pipeline.at) {
            None => Ok(expr),
            Some(token) => Err(extra(token)),
        }
    }
}

/// Recursive descent over the tokens of one action.
struct Pipeline<'p, 't, 's> {
    parser: &'p mut Parser<'s>,
    tokens: &'t [Token<'s>],
    at: usize,
    depth: usize,
    start: usize,
}

impl<'t, 's> Pipeline<'_, 't, 's> {
    fn peek(&self) -> Option<&'t Token<'s>> {
        self.tokens.get(self.at)
    }

    fn run(&mut self) -> Result<Expr, TemplateError> {
        self.depth += 1;
        self.check_depth()?;
        let outer = self.depth;
        let fields = self.parser.fields.len();
        let mut value = self.command(None, fields)?;
        while let Some(Token { kind: Kind::Pipe, .. }) = self.peek() {
            self.at += 1;
            // Each pipe nests the call before it, and evaluation recurses.
            self.depth += 1;
            self.check_depth()?;
            value = self.command(Some(value), fields)?;
        }
        self.depth = outer - 1;
        Ok(value)
    }

    fn check_depth(&self) -> Result<(), TemplateError> {
        if self.depth <= MAX_NESTING {
            return Ok(());
        }
        let message = format!("parentheses and pipes nest more than {MAX_NESTING} deep");
        Err(TemplateError::new(self.start, message, "simplify it"))
    }

    /// Parses one command; `input` is the result of the pipe before it, passed as the last argument. `fields` is the
    /// number of fields that were known before the pipeline.
    fn command(&mut self, input: Option<Expr>, fields: usize) -> Result<Expr, TemplateError> {
        let Some(first) = self.peek() else {
            return Err(TemplateError::new(self.end(), "a value is missing", "write a field, such as .name"));
        };
        let name = match &first.kind {
            Kind::Identifier(name) if !matches!(*name, "true" | "false" | "nil") => *name,
            _ => {
                let value = self.operand()?;
                if input.is_some() {
                    return Err(TemplateError::new(
                        first.offset,
                        "a pipe leads to a value that takes no arguments",
                        "put a function behind the pipe",
                    ));
                }
                return match self.peek() {
                    None | Some(Token { kind: Kind::Pipe | Kind::Close, .. }) => Ok(value),
                    Some(token) => Err(extra(token)),
                };
            }
        };
        self.at += 1;
        let mut arguments = Vec::new();
        while self.peek().is_some_and(|token| !matches!(token.kind, Kind::Pipe | Kind::Close)) {
            arguments.push(self.operand()?);
        }
        arguments.extend(input);
        if self.parser.dot == Dot::Items
            && let Some(aggregate) = Aggregate::named(name)
        {
            let read = self.parser.fields.split_off(fields);
            self.parser.aggregated.extend(read);
            check_count(name, arguments.len() == 1, arguments.len(), "one value", first.offset)?;
            return Ok(Expr::Call(Function::Aggregate(aggregate), arguments));
        }
        call(name, arguments, first.offset, self.parser.dot)
    }

    fn operand(&mut self) -> Result<Expr, TemplateError> {
        let token = self
            .peek()
            .ok_or_else(|| TemplateError::new(self.end(), "a value is missing", "write a field, such as .name"))?;
        self.at += 1;
        let base = match &token.kind {
            Kind::Dot => return Ok(Expr::Dot),
            Kind::Field(name) => return Ok(self.path(Expr::Dot, vec![(*name).into()], token.offset)),
            Kind::Variable(name) => Expr::Variable(self.parser.variable(name, token.offset)?),
            Kind::Open => {
                let value = self.run()?;
                match self.peek() {
                    Some(Token { kind: Kind::Close, .. }) => self.at += 1,
                    _ => return Err(TemplateError::new(token.offset, "a parenthesis is not closed", "add )")),
                }
                value
            }
            Kind::Text(text) => return Ok(Expr::Text(text.as_str().into())),
            Kind::Number(digits) => return Ok(Expr::Number((*digits).into())),
            Kind::Identifier("true") => return Ok(Expr::Bool(true)),
            Kind::Identifier("false") => return Ok(Expr::Bool(false)),
            Kind::Identifier("nil") => return Ok(Expr::Nil),
            Kind::Identifier(name) => {
                self.at -= 1;
                return if functions(self.parser.dot).any(|known| known == *name) {
                    // A function without arguments has no place here: every function takes some.
                    Err(TemplateError::new(
                        token.offset,
                        format!("the function {name} is an argument"),
                        format!("put the call in parentheses: ({name} ..)"),
                    ))
                } else {
                    Err(unknown(name, token.offset, self.parser.dot))
                };
            }
            Kind::Close | Kind::Pipe | Kind::Declare | Kind::Assign | Kind::Comma => return Err(extra(token)),
        };
        Ok(self.path(base, Vec::new(), token.offset))
    }

    /// Parses the fields glued to what came before: `.b.c` of `.a.b.c`, `$x.b.c` and `(..).b.c`.
    fn path(&mut self, base: Expr, mut names: Vec<Box<str>>, offset: usize) -> Expr {
        while let Some(Token { kind: Kind::Field(name), glued: true, .. }) = self.peek() {
            names.push((*name).into());
            self.at += 1;
        }
        if names.is_empty() {
            return base;
        }
        let of_root = match base {
            Expr::Dot => self.parser.dot_is_root,
            Expr::Variable(slot) => slot == 0,
            _ => false,
        };
        if of_root {
            self.parser.fields.push((names[0].clone(), offset));
        }
        Expr::Path(Box::new(base), names)
    }

    fn end(&self) -> usize {
        self.tokens.last().map_or(self.start, |token| token.offset)
    }
}

const FUNCTIONS: [&str; 14] =
    ["and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "len", "index", "print", "println", "printf"];

/// Returns the names of the functions that a template knows.
fn functions(dot: Dot) -> impl Iterator<Item = &'static str> {
    let aggregates: &[Aggregate] = if dot == Dot::Items { &Aggregate::ALL } else { &[] };
    FUNCTIONS.into_iter().chain(aggregates.iter().map(|aggregate| aggregate.name()))
}

fn check_count(name: &str, fits: bool, count: usize, wants: &str, offset: usize) -> Result<(), TemplateError> {
    if fits {
        return Ok(());
    }
    Err(TemplateError::new(offset, format!("{name} has {count} arguments"), format!("it takes {wants}")))
}

fn call(name: &str, mut arguments: Vec<Expr>, offset: usize, dot: Dot) -> Result<Expr, TemplateError> {
    let count = arguments.len();
    let (function, fits, wants) = match name {
        "and" => (Function::And, count >= 1, "one value or more"),
        "or" => (Function::Or, count >= 1, "one value or more"),
        "not" => (Function::Not, count == 1, "one value"),
        "eq" => (Function::Eq, count >= 2, "two values or more"),
        "ne" => (Function::Ne, count == 2, "two values"),
        "lt" => (Function::Lt, count == 2, "two values"),
        "le" => (Function::Le, count == 2, "two values"),
        "gt" => (Function::Gt, count == 2, "two values"),
        "ge" => (Function::Ge, count == 2, "two values"),
        "len" => (Function::Len, count == 1, "one value"),
        "index" => (Function::Index, count >= 1, "a value and its keys"),
        "print" => (Function::Print, true, ""),
        "println" => (Function::Println, true, ""),
        "printf" => {
            let Some(Expr::Text(text)) = arguments.first() else {
                return Err(TemplateError::new(
                    offset,
                    "the format of printf is not a string",
                    "write it in the template, as in {{printf \"%.2f\" .price}}",
                ));
            };
            let format = Format::parse(text).map_err(|reason| {
                TemplateError::new(
                    offset,
                    format!("printf: {reason}"),
                    "use %s %d %v %q %x %f %t, with width and precision",
                )
            })?;
            arguments.remove(0);
            if format.arity() != count - 1 {
                return Err(TemplateError::new(
                    offset,
                    format!("printf has {} verbs and {} values", format.arity(), count - 1),
                    "give each verb one value",
                ));
            }
            (Function::Printf(format), true, "")
        }
        _ => return Err(unknown(name, offset, dot)),
    };
    check_count(name, fits, count, wants, offset)?;
    Ok(Expr::Call(function, arguments))
}

fn unknown(name: &str, offset: usize, dot: Dot) -> TemplateError {
    if name == "else" || name == "end" || name == "if" || name == "range" || name == "with" {
        return TemplateError::new(
            offset,
            format!("{name} stands within an action"),
            "put it at the action's beginning",
        );
    }
    TemplateError::new(
        offset,
        format!("the function {name} is not known"),
        format!("a field is written .{name}; functions are {}", functions(dot).collect::<Vec<_>>().join(", ")),
    )
}

fn keyword<'s>(tokens: &[Token<'s>]) -> Option<&'s str> {
    match tokens.first()?.kind {
        Kind::Identifier(name) => Some(name),
        _ => None,
    }
}

fn stray(tokens: &[Token<'_>], word: &str) -> TemplateError {
    let offset = tokens.first().map_or(0, |token| token.offset);
    TemplateError::new(
        offset,
        format!("an {{{{{word}}}}} belongs to nothing"),
        "remove it, or begin an {{if}} before it",
    )
}

fn extra(token: &Token<'_>) -> TemplateError {
    let what = match &token.kind {
        Kind::Identifier(name) => format!("`{name}`"),
        Kind::Field(name) => format!("`.{name}`"),
        Kind::Variable(name) => format!("`${name}`"),
        Kind::Number(digits) => format!("`{digits}`"),
        Kind::Text(_) => "a string".into(),
        Kind::Dot => "`.`".into(),
        Kind::Open => "`(`".into(),
        Kind::Close => "`)`".into(),
        Kind::Pipe => "`|`".into(),
        Kind::Declare => "`:=`".into(),
        Kind::Assign => "`=`".into(),
        Kind::Comma => "`,`".into(),
    };
    TemplateError::new(
        token.offset,
        format!("{what} has no place here"),
        "remove it; two values are joined by print, and a field of a field is written .a.b",
    )
}
