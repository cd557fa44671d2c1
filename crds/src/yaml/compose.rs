//! Builds trees from YAML events: anchors, aliases, merge keys, duplicates and limits.

use std::collections::HashMap;
use std::sync::Arc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use super::node::clamp;
use super::scalar::yaml11_bool;
use super::{Entry, MAX_ALIAS_EXPANSION, MAX_DEPTH, Node, Nodes, Position, Resolved, Scalar, Value, Written};
use crate::Diagnostic;

type Result<T> = std::result::Result<T, Box<Diagnostic>>;

/// Returns all documents of a YAML stream. An empty document (`---` alone) is left out. `limit`: the most keys and values.
pub(super) fn parse(file: &Arc<str>, text: &str, limit: usize) -> Result<Vec<Node>> {
    let mut composer = Composer {
        file,
        text,
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        expansion: 0,
        nodes: Nodes { count: 0, limit },
    };
    let mut documents = Vec::new();
    loop {
        let (event, span) = composer.next()?;
        match event {
            Event::StreamEnd => return Ok(documents),
            // Anchors end with their document; the parser would carry them over to the next one.
            Event::DocumentStart(_) => composer.anchors.clear(),
            Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
            event => {
                let node = composer.node(event, span, 0)?;
                let empty = matches!(&node.value, Value::Scalar(s) if s.plain && s.resolved == Resolved::Null);
                if !empty {
                    documents.push(node);
                }
            }
        }
    }
}

struct Composer<'a> {
    file: &'a Arc<str>,
    text: &'a str,
    parser: Parser<'a, StrInput<'a>>,
    /// The anchored nodes with their weights, by the parser's number.
    anchors: HashMap<usize, (Node, usize)>,
    /// The weight that aliases have added so far.
    expansion: usize,
    nodes: Nodes,
}

impl<'a> Composer<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span)> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(self.syntax(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node> {
        let position = place(span.start);
        if depth > MAX_DEPTH {
            return Err(self.too_deep(position));
        }
        self.nodes.add().map_err(|(message, remedy)| self.error(position, message, remedy))?;
        let (anchor, value) = match event {
            Event::Alias(id) => return self.alias(id, position),
            Event::Scalar(source, style, anchor, tag) => {
                (anchor, self.scalar(&source, style, tag.as_deref(), position)?)
            }
            Event::SequenceStart(anchor, tag) => {
                self.collection_tag(tag.as_deref(), "seq", position)?;
                (anchor, self.list(depth)?)
            }
            Event::MappingStart(anchor, tag) => {
                self.collection_tag(tag.as_deref(), "map", position)?;
                (anchor, self.map(depth)?)
            }
            // By the parser's grammar no other event can be where a node belongs.
            _ => return Err(self.error(position, "a value is missing", "write one")),
        };
        let node = Node { position, value };
        if anchor != 0 {
            let weight = weigh(&node);
            self.anchors.insert(anchor, (node.clone(), weight));
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Value> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => {
                    // Trees are kept, and most lists are short.
                    items.shrink_to_fit();
                    return Ok(Value::List(items));
                }
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen: HashMap<Box<str>, Position> = HashMap::new();
        let mut merges: Vec<Node> = Vec::new();
        loop {
            let (event, span) = match self.next()? {
                (Event::MappingEnd, _) => break,
                next => next,
            };
            let key = self.node(event, span, depth + 1)?;
            let Value::Scalar(scalar) = key.value else {
                return Err(self.error(
                    key.position,
                    format!("expected a key, found {}", key.describe()),
                    "write a name",
                ));
            };
            if scalar.resolved == Resolved::Null {
                return Err(self.error(key.position, "a key is empty", "write a name"));
            }
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            if scalar.plain && &*scalar.source == "<<" {
                merges.push(value);
                continue;
            }
            if let Some(first) = seen.insert(scalar.source.clone(), key.position) {
                let message = format!("key `{}` occurs twice, first in line {}", scalar.source, first.line);
                return Err(self.error(key.position, message, "remove one of them"));
            }
            entries.push(Entry {
                boolean_for_kubectl: scalar.plain && yaml11_bool(&scalar.source).is_some(),
                key: scalar.source,
                position: key.position,
                written: Written::Same,
                value,
            });
        }
        for merge in merges {
            self.merge(merge, &mut entries, &mut seen)?;
        }
        entries.shrink_to_fit();
        Ok(Value::Map(entries))
    }

    /// `<<` (yaml.org/type/merge): existing keys take precedence, and so do earlier sources over later ones.
    fn merge(&self, source: Node, entries: &mut Vec<Entry>, seen: &mut HashMap<Box<str>, Position>) -> Result<()> {
        match source.value {
            Value::Map(merged) => {
                for entry in merged {
                    if !seen.contains_key(&entry.key) {
                        seen.insert(entry.key.clone(), entry.position);
                        entries.push(entry);
                    }
                }
                Ok(())
            }
            Value::List(sources) if sources.iter().all(|s| matches!(s.value, Value::Map(_))) => {
                sources.into_iter().try_for_each(|source| self.merge(source, entries, seen))
            }
            _ => Err(self.error(
                source.position,
                "`<<` must merge mappings",
                "use an alias of a mapping or a list of aliases, or quote \"<<\" if it is a name",
            )),
        }
    }

    fn alias(&mut self, id: usize, position: Position) -> Result<Node> {
        let Some((node, weight)) = self.anchors.get(&id) else {
            return Err(self.error(
                position,
                "the alias refers to an incomplete node or to another document",
                "write it out",
            ));
        };
        self.expansion += weight;
        if self.expansion > MAX_ALIAS_EXPANSION {
            return Err(self.error(position, "aliases expand the file beyond the limit", "write the values out"));
        }
        // The contents keep the positions where they were written; the node itself is at the alias.
        Ok(Node { position, ..node.clone() })
    }

    fn scalar(&self, source: &str, style: ScalarStyle, tag: Option<&Tag>, position: Position) -> Result<Value> {
        let plain = Scalar::plain(source);
        let Some(tag) = tag else {
            let quoted = || Scalar { literal: style == ScalarStyle::Literal, ..Scalar::quoted(source) };
            return Ok(Value::Scalar(if style == ScalarStyle::Plain { plain } else { quoted() }));
        };
        let fits = match (tag.is_yaml_core_schema(), tag.suffix.as_str()) {
            (true, "str") => return Ok(Value::Scalar(Scalar::quoted(source))),
            (true, "int") => matches!(&plain.resolved, Resolved::Number(n) if !n.contains(['.', 'e', 'E'])),
            (true, "float") => matches!(plain.resolved, Resolved::Number(_)),
            (true, "bool") => matches!(plain.resolved, Resolved::Bool(_)),
            (true, "null") => plain.resolved == Resolved::Null,
            _ => return Err(self.tag(tag, position)),
        };
        if fits {
            Ok(Value::Scalar(plain))
        } else {
            Err(self.error(position, format!("`{source}` does not match its tag `!!{}`", tag.suffix), "remove the tag"))
        }
    }

    fn collection_tag(&self, tag: Option<&Tag>, suffix: &str, position: Position) -> Result<()> {
        match tag {
            Some(tag) if !(tag.is_yaml_core_schema() && tag.suffix == suffix) => Err(self.tag(tag, position)),
            _ => Ok(()),
        }
    }

    fn tag(&self, tag: &Tag, position: Position) -> Box<Diagnostic> {
        let name = if tag.is_yaml_core_schema() { format!("!!{}", tag.suffix) } else { tag.to_string() };
        self.error(position, format!("unknown tag `{name}`"), "remove it")
    }

    fn syntax(&self, error: &ScanError) -> Box<Diagnostic> {
        let position = place(*error.marker());
        // A tab is the usual cause of an error that the scanner can describe only by its consequence.
        let line = self.text.lines().nth(position.line.saturating_sub(1) as usize).unwrap_or("");
        let indentation = &line[..line.len() - line.trim_start().len()];
        if let Some(at) = indentation.find('\t') {
            let position = Position { line: position.line, column: clamp(at + 1) };
            return self.error(position, "a tab in the indentation", "indent with spaces");
        }
        if error.info().contains("recursion limit") {
            return self.too_deep(position);
        }
        if line.chars().take(position.column as usize).skip_while(|c| *c != ':').any(|c| c == '\t') {
            return self.error(position, "a tab after a colon", "write a space");
        }
        let remedy = match error.info() {
            info if info.contains("mapping values are not allowed") => {
                "quote strings that contain a colon, or fix the indentation"
            }
            info if info.contains("unknown anchor") => "define it with `&` earlier in the same document",
            info if info.contains("flow") => "close the bracket or brace, or quote the string that contains one",
            _ => "fix this line or the line before it",
        };
        self.error(position, format!("not YAML: {}", error.info()), remedy)
    }

    fn too_deep(&self, position: Position) -> Box<Diagnostic> {
        self.error(position, format!("nested more than {MAX_DEPTH} deep"), "flatten the document")
    }

    fn error(&self, position: Position, message: impl Into<String>, remedy: &str) -> Box<Diagnostic> {
        Box::new(Diagnostic::error(self.file, position, "", message, remedy))
    }
}

fn place(marker: Marker) -> Position {
    Position { line: clamp(marker.line().max(1)), column: clamp(marker.col() + 1) }
}

/// Returns the cost of a copy of the node: one for each node, and its text.
fn weigh(node: &Node) -> usize {
    1 + match &node.value {
        Value::Scalar(scalar) => scalar.source.len(),
        Value::List(items) => items.iter().map(weigh).sum(),
        Value::Map(entries) => entries.iter().map(|e| e.key.len() + weigh(&e.value)).sum(),
    }
}
