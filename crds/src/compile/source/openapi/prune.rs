//! A document without what the tools that were made of it do not need, as JSON in a stable order.

use std::collections::{BTreeSet, VecDeque};

use super::super::names::quoted;
use super::document::{At, Document};
use super::operation::METHODS;
use super::schema::json;
use crate::yaml::Value;

/// What a kept part of a document says to people or to other programs.
const UNUSED: [&str; 5] = ["externalDocs", "callbacks", "links", "webhooks", "examples"];
/// The members whose keys are names of the document, and never keywords.
const NAMED: [&str; 5] = ["properties", "patternProperties", "dependentSchemas", "$defs", "mapping"];

/// Returns the document with only these operations (`GET /pets`), and what they refer to. `None` if a reference leads to a place
/// outside `components`, which pruning could remove.
pub(super) fn prune(document: &Document<'_>, operations: &BTreeSet<&str>) -> Option<String> {
    let root = document.root();
    let mut kept = Kept { components: BTreeSet::new(), queue: VecDeque::new(), is_closed: true };
    let mut out = Output { text: String::new(), depth: 0 };
    out.open('{');
    for key in ["openapi", "info", "servers", "security"] {
        if let Some(at) = root.get(key) {
            out.key(key);
            out.node(&at, key, &mut kept);
        }
    }
    out.key("paths");
    out.open('{');
    for (path, item) in root.get("paths").iter().flat_map(At::members) {
        let item = document.resolve(&item).ok()?;
        let is_kept = |method: &str| operations.contains(&*format!("{} {path}", method.to_ascii_uppercase()));
        if !item.members().any(|(key, _)| METHODS.contains(&key) && is_kept(key)) {
            continue;
        }
        out.key(path);
        out.open('{');
        for (key, at) in item.members() {
            let is_shared = matches!(key, "parameters" | "servers");
            if is_shared || (METHODS.contains(&key) && is_kept(key)) {
                out.key(key);
                out.node(&at, key, &mut kept);
            }
        }
        out.close('}');
    }
    out.close('}');
    components(root, &mut kept, &mut out);
    out.close('}');
    out.text.push('\n');
    kept.is_closed.then_some(out.text)
}

/// Writes the components that are referred to, in the order of their kinds and names.
fn components<'n>(root: &At<'n>, kept: &mut Kept, out: &mut Output) {
    let Some(all) = root.get("components") else { return };
    let mut written: Vec<(String, String, String)> = Vec::new();
    if let Some(schemes) = all.get("securitySchemes") {
        for (name, at) in schemes.members() {
            let mut part = Output { text: String::new(), depth: 3 };
            part.node(&at, "", kept);
            written.push(("securitySchemes".to_owned(), name.to_owned(), part.text));
        }
    }
    while let Some((kind, name)) = kept.queue.pop_front() {
        let Some(at) = all.get(&kind).and_then(|kinds| kinds.get(&name)) else { continue };
        let mut part = Output { text: String::new(), depth: 3 };
        part.node(&at, "", kept);
        written.push((kind, name, part.text));
    }
    written.sort();
    let mut kinds: Vec<&str> = written.iter().map(|(kind, ..)| &**kind).collect();
    kinds.dedup();
    if kinds.is_empty() {
        return;
    }
    out.key("components");
    out.open('{');
    for kind in kinds {
        out.key(kind);
        out.open('{');
        for (_, name, text) in written.iter().filter(|(of, ..)| of == kind) {
            out.key(name);
            out.text.push_str(text);
        }
        out.close('}');
    }
    out.close('}');
}

/// The components that are kept.
struct Kept {
    components: BTreeSet<(String, String)>,
    queue: VecDeque<(String, String)>,
    /// Whether every reference leads to a component.
    is_closed: bool,
}

impl Kept {
    fn reference(&mut self, text: &str) {
        let steps = text.strip_prefix("#/components/").and_then(|rest| rest.split_once('/'));
        let Some((kind, rest)) = steps else {
            // One to another document stays as it is.
            self.is_closed &= !text.starts_with('#');
            return;
        };
        let name = rest.split('/').next().unwrap_or(rest);
        let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy().replace("~1", "/").replace("~0", "~");
        if self.components.insert((kind.to_owned(), name.clone())) {
            self.queue.push_back((kind.to_owned(), name));
        }
    }
}

/// JSON with two spaces of indentation.
struct Output {
    text: String,
    depth: usize,
}

impl Output {
    fn open(&mut self, bracket: char) {
        self.text.push(bracket);
        self.depth += 1;
    }

    fn close(&mut self, bracket: char) {
        self.depth -= 1;
        if !self.text.ends_with(['{', '[']) {
            self.line();
        }
        self.text.push(bracket);
    }

    fn line(&mut self) {
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n("  ", self.depth));
    }

    fn next(&mut self) {
        if !self.text.ends_with(['{', '[']) {
            self.text.push(',');
        }
        self.line();
    }

    fn key(&mut self, key: &str) {
        self.next();
        self.text.push_str(&quoted(key));
        self.text.push_str(": ");
    }

    /// Writes a node without what is not used. `key`: the member that it is the value of.
    fn node(&mut self, at: &At<'_>, key: &str, kept: &mut Kept) {
        match &at.node.value {
            // A number that JSON cannot represent is a mistake, which has been reported.
            Value::Scalar(_) => {
                if json(at.node, &mut self.text).is_err() {
                    self.text.push_str("null");
                }
            }
            Value::List(_) => {
                self.open('[');
                for item in at.items() {
                    self.next();
                    self.node(&item, "", kept);
                }
                self.close(']');
            }
            Value::Map(_) => {
                let is_named = NAMED.contains(&key);
                let succeeds = |(status, _): (&str, _)| status.starts_with('2');
                let any_succeeds = key == "responses" && at.members().any(succeeds);
                self.open('{');
                for (name, child) in at.members() {
                    let is_list = matches!(child.node.value, Value::List(_));
                    let is_unused = name.starts_with("x-") || (UNUSED.contains(&name) && !is_list);
                    // Only successful answers are described by an output schema.
                    let is_failure = any_succeeds && !name.starts_with('2');
                    if (!is_named && is_unused) || is_failure {
                        continue;
                    }
                    if name == "$ref"
                        && !is_named
                        && let Some(text) = child.text()
                    {
                        kept.reference(text);
                    }
                    self.key(name);
                    self.node(&child, if is_named { "" } else { name }, kept);
                }
                self.close('}');
            }
        }
    }
}
