//! An OpenAPI document as a tree whose places keep their path and position, and its references.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use crate::Diagnostic;
use crate::diagnostic::Severity;
use crate::origin::{push_index, push_key};
use crate::read::excerpt;
use crate::yaml::{Node, Position, Resolved, Value};

/// The number of references that may lead to each other without anything else.
const MAX_HOPS: usize = 32;
/// The number of findings about one document.
const MAX_FINDINGS: usize = 100;
/// The number of members from which on a mapping gets an index.
const INDEXED: usize = 16;

/// Why an operation becomes no tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Halt {
    /// It needs what is not supported. Holds the reason, which continues a sentence about the operation.
    LeftOut(String),
    /// The document has a mistake, which has been reported.
    Mistake,
}

/// A version of OpenAPI, as far as documents differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// 3.0, with a dialect of JSON Schema of its own.
    Three0,
    /// 3.1 and 3.2, with JSON Schema 2020-12.
    Three1,
}

/// A place in a document.
#[derive(Debug, Clone)]
pub(super) struct At<'n> {
    pub(super) node: &'n Node,
    /// The position of its key, or of the value in a list.
    pub(super) position: Position,
    link: Option<Rc<Link<'n>>>,
}

#[derive(Debug)]
struct Link<'n> {
    parent: Option<Rc<Link<'n>>>,
    step: Step<'n>,
}

#[derive(Debug)]
enum Step<'n> {
    Key(&'n str),
    Index(usize),
}

impl<'n> At<'n> {
    fn below(&self, step: Step<'n>, node: &'n Node, position: Position) -> Self {
        let parent = self.link.clone();
        Self { node, position, link: Some(Rc::new(Link { parent, step })) }
    }

    /// Returns the members of a mapping; nothing for another value.
    pub(super) fn members(&self) -> impl Iterator<Item = (&'n str, Self)> {
        let entries = self.node.entries().unwrap_or_default();
        entries.iter().map(|entry| (&*entry.key, self.below(Step::Key(&entry.key), &entry.value, entry.position)))
    }

    /// Returns the elements of a list; nothing for another value.
    pub(super) fn items(&self) -> impl Iterator<Item = Self> {
        let items = match &self.node.value {
            Value::List(items) => &items[..],
            Value::Map(_) | Value::Scalar(_) => &[],
        };
        items.iter().enumerate().map(|(index, item)| self.below(Step::Index(index), item, item.position))
    }

    /// Returns a member of a mapping. Takes time in proportion to the number of members.
    pub(super) fn get(&self, key: &str) -> Option<Self> {
        let entry = self.node.entry(key)?;
        Some(self.below(Step::Key(&entry.key), &entry.value, entry.position))
    }

    /// Returns the text of a scalar.
    pub(super) fn text(&self) -> Option<&'n str> {
        self.node.as_source()
    }

    /// Returns the text of a member.
    pub(super) fn text_of(&self, key: &str) -> Option<&'n str> {
        self.node.get(key)?.as_source()
    }

    /// Returns whether a member is true.
    pub(super) fn flag(&self, key: &str) -> bool {
        matches!(self.node.get(key).map(|node| &node.value), Some(Value::Scalar(s)) if s.resolved == Resolved::Bool(true))
    }

    pub(super) fn is_map(&self) -> bool {
        self.node.entries().is_some()
    }
}

/// The members of a large mapping by name.
type Index<'n> = HashMap<&'n str, usize>;

/// A document, and what is wrong with it.
pub(super) struct Document<'n> {
    root: At<'n>,
    file: &'n Arc<str>,
    /// The path of the document in its file.
    prefix: &'static str,
    pub(super) version: Version,
    indexes: RefCell<HashMap<*const Node, Index<'n>>>,
    findings: RefCell<Vec<Diagnostic>>,
}

impl<'n> Document<'n> {
    /// Reads the version of a document.
    ///
    /// # Errors
    /// One finding for a document that is not one of OpenAPI 3.0 to 3.2.
    pub(super) fn new(file: &'n Arc<str>, prefix: &'static str, node: &'n Node) -> Result<Self, Diagnostic> {
        let root = At { node, position: node.position, link: None };
        let error = |at: &At<'n>, message: String, remedy: &str| {
            Diagnostic::error(file, at.position, field(prefix, at), message, remedy)
        };
        let wanted = "name a document that begins with `openapi: 3.1.0`, or 3.0 or 3.2";
        if !root.is_map() {
            return Err(error(&root, format!("expected an OpenAPI document, found {}", node.describe()), wanted));
        }
        if let Some(at) = root.get("swagger") {
            let remedy = "convert it to OpenAPI 3, for example with `npx swagger2openapi`";
            return Err(error(&at, "Swagger 2.0 is not supported".to_owned(), remedy));
        }
        let Some(at) = root.get("openapi") else {
            return Err(error(&root, "has no `openapi` version, so it is no OpenAPI document".to_owned(), wanted));
        };
        let text = at.text().unwrap_or_default();
        let is =
            |version: &str| text.strip_prefix(version).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let version = match () {
            () if is("3.0") => Version::Three0,
            () if is("3.1") || is("3.2") => Version::Three1,
            () => return Err(error(&at, format!("version `{}` is not supported", excerpt(text)), wanted)),
        };
        let (indexes, findings) = (RefCell::default(), RefCell::default());
        Ok(Self { root, file, prefix, version, indexes, findings })
    }

    pub(super) fn root(&self) -> &At<'n> {
        &self.root
    }

    /// Reports a mistake.
    pub(super) fn mistake(&self, at: &At<'n>, message: impl Into<String>, remedy: impl Into<String>) -> Halt {
        self.report(Diagnostic::error(self.file, at.position, self.field(at), message, remedy));
        Halt::Mistake
    }

    /// Reports what works otherwise than its author may expect.
    pub(super) fn warn(&self, at: &At<'n>, message: impl Into<String>, remedy: impl Into<String>) {
        self.report(Diagnostic::warning(self.file, at.position, self.field(at), message, remedy));
    }

    fn report(&self, finding: Diagnostic) {
        let mut findings = self.findings.borrow_mut();
        if findings.len() < MAX_FINDINGS {
            findings.push(finding);
        }
    }

    /// Returns the number of findings so far, for [`Document::soften`].
    pub(super) fn findings(&self) -> usize {
        self.findings.borrow().len()
    }

    /// Forgets the findings from a number on: something else reports them.
    pub(super) fn forget(&self, from: usize) {
        self.findings.borrow_mut().truncate(from);
    }

    /// Turns the findings from a number on into warnings: what they are about is left out.
    pub(super) fn soften(&self, from: usize) {
        for finding in self.findings.borrow_mut().iter_mut().skip(from) {
            finding.severity = Severity::Warning;
        }
    }

    pub(super) fn into_findings(self) -> Vec<Diagnostic> {
        self.findings.into_inner()
    }

    /// Returns the path of a place, as messages name it.
    pub(super) fn field(&self, at: &At<'n>) -> String {
        field(self.prefix, at)
    }

    /// Follows the references of a place until it holds something else.
    ///
    /// # Errors
    /// For a reference to another document, to nothing, or back to itself.
    pub(super) fn resolve(&self, at: &At<'n>) -> Result<At<'n>, Halt> {
        let mut found = at.clone();
        for _ in 0..MAX_HOPS {
            match found.get("$ref") {
                None => return Ok(found),
                Some(reference) => found = self.target(&reference)?,
            }
        }
        let remedy = "let one of the references lead to a definition";
        Err(self.mistake(
            at,
            format!("more than {MAX_HOPS} references lead to each other, or back to the first"),
            remedy,
        ))
    }

    /// Returns the place that the text of a `$ref` names.
    ///
    /// # Errors
    /// For a reference to another document, or to nothing.
    pub(super) fn target(&self, reference: &At<'n>) -> Result<At<'n>, Halt> {
        let Some(text) = reference.text() else {
            return Err(self.mistake(reference, "is not a reference", "write #/components/..."));
        };
        let Some(pointer) = text.strip_prefix('#') else {
            return Err(Halt::LeftOut(format!("refers to another document, `{}`", excerpt(text))));
        };
        let missing = || {
            let message = format!("`{}` does not exist in the document", excerpt(text));
            self.mistake(reference, message, "define it, or correct the reference")
        };
        let Some(steps) = pointer.strip_prefix('/') else {
            return Err(missing());
        };
        let mut at = self.root.clone();
        for step in steps.split('/') {
            let step = percent_decode_str(step).decode_utf8_lossy().replace("~1", "/").replace("~0", "~");
            at = self.member(&at, &step).ok_or_else(missing)?;
        }
        Ok(at)
    }

    /// Returns a member of a mapping or an element of a list, in time that does not depend on their number.
    pub(super) fn member(&self, at: &At<'n>, key: &str) -> Option<At<'n>> {
        match &at.node.value {
            Value::Scalar(_) => None,
            Value::List(items) => {
                let index = key.parse().ok()?;
                let item: &Node = items.get(index)?;
                Some(at.below(Step::Index(index), item, item.position))
            }
            Value::Map(entries) if entries.len() < INDEXED => at.get(key),
            Value::Map(entries) => {
                let mut indexes = self.indexes.borrow_mut();
                let index = indexes
                    .entry(std::ptr::from_ref(at.node))
                    .or_insert_with(|| entries.iter().enumerate().map(|(index, e)| (&*e.key, index)).collect());
                let entry = &entries[*index.get(key)?];
                Some(at.below(Step::Key(&entry.key), &entry.value, entry.position))
            }
        }
    }
}

fn field(prefix: &str, at: &At<'_>) -> String {
    let mut steps = Vec::new();
    let mut link = at.link.as_ref();
    while let Some(here) = link {
        steps.push(&here.step);
        link = here.parent.as_ref();
    }
    let mut field = prefix.to_owned();
    for step in steps.into_iter().rev() {
        match step {
            Step::Key(key) => push_key(&mut field, key),
            Step::Index(index) => push_index(&mut field, *index),
        }
    }
    field
}
