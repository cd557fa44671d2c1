//! Stage 11, `compact`: renders a list as a text summary (seed kimbap: `response.compact`).

use std::ops::Range;

use super::{Meter, RenderError, Template};
use crate::json::{self, Node};
use crate::{CompactSpec, Finding};

/// The fields that header and footer may read.
const COUNTS: [&str; 3] = ["Total", "Count", "Remaining"];

/// A compiled [`CompactSpec`]. Immutable.
#[derive(Debug, Clone)]
pub struct CompactProgram {
    header: Option<Template>,
    item: Template,
    footer: Option<Template>,
}

/// The lines that the items of a list print, rendered once.
#[derive(Debug)]
pub(crate) struct Rendered {
    /// The texts of the items, joined by line ends. The text of an item may have line ends of its own.
    text: String,
    /// The end of each.
    ends: Vec<usize>,
    /// Whether there are items, but nothing of any of them was printed.
    pub(crate) silent: bool,
}

/// What header and footer may print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    /// `.Total`: the number of items before `maxItems` and budget.
    pub(crate) total: usize,
    /// `.Count`: the number of items that are shown.
    pub(crate) count: usize,
    /// `.Remaining`: the others.
    pub(crate) remaining: usize,
}

impl Counts {
    pub(crate) fn of(total: usize, count: usize) -> Self {
        Self { total, count, remaining: total.saturating_sub(count) }
    }
}

impl CompactProgram {
    /// Parses the three templates. A line end at the very end of a template, which YAML's block style leaves, is
    /// dropped.
    ///
    /// # Errors Every mistake, each with the path of its field below the filter entry (`compact.item`).
    pub fn compile(spec: &CompactSpec) -> Result<Self, Vec<Finding>> {
        let CompactSpec { header, item, footer } = spec;
        let mut findings = Vec::new();
        let header = header.as_deref().and_then(|source| template("compact.header", source, true, &mut findings));
        let item = match item.as_deref() {
            Some(source) if !source.is_empty() => template("compact.item", source, false, &mut findings),
            _ => {
                findings.push(Finding::error(
                    "compact.item",
                    "is required where compact is present",
                    "write the line of one item, such as \"#{{.number}} {{.title}}\"",
                ));
                None
            }
        };
        let footer = footer.as_deref().and_then(|source| template("compact.footer", source, true, &mut findings));
        match item {
            Some(item) if findings.is_empty() => Ok(Self { header, item, footer }),
            _ => Err(findings),
        }
    }

    /// Returns the members of an item that `compact.item` reads, each once.
    pub(crate) fn item_fields(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in self.item.fields() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Returns whether no item has any of the members that `compact.item` reads.
    fn misses_all(&self, items: &[Node<'_>]) -> bool {
        let fields = self.item_fields();
        let has = |item: &Node<'_>| fields.iter().any(|name| item.get(name).is_some_and(|value| !value.is_null()));
        !fields.is_empty() && !items.iter().any(has)
    }

    /// Renders the line of each item.
    ///
    /// # Errors The renderer reached a limit. Nothing in the data itself makes a rendering fail.
    pub(crate) fn lines(&self, items: &[Node<'_>], meter: &mut Meter<'_>) -> Result<Rendered, RenderError> {
        let mut text = String::new();
        let mut ends = Vec::with_capacity(items.len());
        for item in items {
            if !ends.is_empty() {
                text.push('\n');
            }
            self.item.render(item, &mut text, meter)?;
            ends.push(text.len());
        }
        let silent = !items.is_empty() && (text.trim().is_empty() || self.misses_all(items));
        Ok(Rendered { text, ends, silent })
    }

    /// Puts header and footer around the lines of items, if there are any, with line ends between them. A header or
    /// footer that renders to nothing is left out.
    ///
    /// # Errors The renderer reached a limit.
    pub(crate) fn around(
        &self,
        lines: Option<&str>,
        counts: Counts,
        meter: &mut Meter<'_>,
    ) -> Result<String, RenderError> {
        let Counts { total, count, remaining } = counts;
        let counts = format!("{{\"Total\":{total},\"Count\":{count},\"Remaining\":{remaining}}}");
        let counts = json::parse(counts.as_bytes(), 1).unwrap_or(Node::NULL);
        let mut edge = |template: &Option<Template>| {
            let mut text = String::new();
            template.as_ref().map_or(Ok(()), |template| template.render(&counts, &mut text, meter))?;
            Ok((!text.is_empty()).then_some(text))
        };
        let (header, footer) = (edge(&self.header)?, edge(&self.footer)?);
        let parts: Vec<&str> = [header.as_deref(), lines, footer.as_deref()].into_iter().flatten().collect();
        Ok(parts.join("\n"))
    }
}

impl Rendered {
    /// Returns the number of items.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the texts of all items, joined by line ends.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns where the text of an item is.
    pub(crate) fn place(&self, item: usize) -> Range<usize> {
        let start = item.checked_sub(1).map_or(0, |before| self.ends[before] + 1);
        start..self.ends[item]
    }

    /// Returns the text of an item.
    pub(crate) fn line(&self, item: usize) -> &str {
        &self.text[self.place(item)]
    }
}

/// Returns the structured content of a summary, `{"summary": .., "_compact": true, "_original_items": ..}`, with
/// `members` appended. `total` is the number of items before `maxItems`.
pub(crate) fn structured(summary: &str, total: usize, members: &str) -> String {
    let comma = if members.is_empty() { "" } else { "," };
    let summary = json::encode(summary);
    format!("{{\"summary\":{summary},\"_compact\":true,\"_original_items\":{total}{comma}{members}}}")
}

fn template(field: &str, source: &str, counts_only: bool, findings: &mut Vec<Finding>) -> Option<Template> {
    let source = source.strip_suffix('\n').map_or(source, |s| s.strip_suffix('\r').unwrap_or(s));
    let template = match Template::parse(source) {
        Ok(template) => template,
        Err(error) => {
            let message = format!("at {}: {}", place(source, error.offset), error.message);
            findings.push(Finding::error(field, message, error.remedy));
            return None;
        }
    };
    let unknown = template.fields().find(|(name, _)| counts_only && !COUNTS.contains(name));
    if let Some((name, offset)) = unknown {
        findings.push(Finding::error(
            field,
            format!("at {}: .{name} is not known here", place(source, offset)),
            "use .Total, .Count and .Remaining; the fields of an item are known in compact.item",
        ));
        return None;
    }
    Some(template)
}

/// Returns the place of a byte as line and column.
pub(crate) fn place(source: &str, offset: usize) -> String {
    let before = &source[..source.floor_char_boundary(offset)];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    if source.contains('\n') { format!("line {line}, column {column}") } else { format!("column {column}") }
}
