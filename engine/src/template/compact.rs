//! Stage 11, `compact`: a list as a text summary (seed kimbap: `response.compact`).

use std::fmt::Write as _;

use super::{Meter, RenderError, Template};
use crate::budget::cut_to;
use crate::json::{self, Node};
use crate::{BudgetReport, CompactSpec, Finding};

/// What header and footer may read.
const COUNTS: [&str; 3] = ["Total", "Count", "Remaining"];

/// A [`CompactSpec`] that runs. Immutable.
#[derive(Debug, Clone)]
pub struct CompactProgram {
    header: Option<Template>,
    item: Template,
    footer: Option<Template>,
}

/// A rendered summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The text block.
    pub text: String,
    /// `.Count`: the items that are shown.
    pub count: usize,
    /// `.Total`: the items before `maxItems` and budget.
    pub total: usize,
    /// Whether there are items, and nothing of any of them was printed.
    pub silent: bool,
    /// Set where the budget made the text smaller.
    pub budget: Option<BudgetReport>,
}

impl CompactProgram {
    /// Parses the three templates. A line end at the very end of one, as YAML's block style leaves it, is dropped.
    ///
    /// # Errors
    /// Every mistake, each with the path of its field below the filter entry (`compact.item`).
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

    /// The members of an item that the line of an item reads, each once.
    pub(crate) fn item_fields(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in self.item.fields() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Whether no item has any of the members that its line reads.
    fn misses_all(&self, items: &[Node<'_>]) -> bool {
        let fields = self.item_fields();
        let has = |item: &Node<'_>| fields.iter().any(|name| item.get(name).is_some_and(|value| !value.is_null()));
        !fields.is_empty() && !items.iter().any(has)
    }

    /// Renders header, one line an item, and footer, joined by line ends; a header or footer that renders to
    /// nothing is left out. `total` is the list's length before `maxItems`.
    ///
    /// With a `limit` in bytes, as many items are shown as fit, from the first; if not even one does, its text is
    /// cut; if header and footer alone do not fit, the whole text is.
    ///
    /// # Errors
    /// Where a limit of the renderer is reached; nothing in the data itself makes a rendering fail.
    pub fn render(&self, items: &[Node<'_>], total: usize, limit: Option<usize>) -> Result<Summary, RenderError> {
        self.render_within(items, total, limit, Meter::default())
    }

    /// The same within limits of one's own.
    pub(crate) fn render_within(
        &self,
        items: &[Node<'_>],
        total: usize,
        limit: Option<usize>,
        mut meter: Meter<'_>,
    ) -> Result<Summary, RenderError> {
        let mut lines = String::new();
        let mut ends = Vec::with_capacity(items.len());
        for item in items {
            if !ends.is_empty() {
                lines.push('\n');
            }
            self.item.render(item, &mut lines, &mut meter)?;
            ends.push(lines.len());
        }
        let silent = !items.is_empty() && (lines.trim().is_empty() || self.misses_all(items));
        let mut page = Page { program: self, lines: &lines, ends: &ends, total, meter };
        let full = page.compose(items.len())?;
        match limit {
            Some(limit) if full.len() > limit => page.fit(limit, full.len()),
            _ => Ok(Summary { text: full, count: items.len(), total, silent: false, budget: None }),
        }
        .map(|summary| Summary { silent, ..summary })
    }
}

impl Summary {
    /// The structured content, `{"summary": .., "_compact": true, "_original_items": ..}`.
    #[must_use]
    pub fn structured(&self) -> String {
        let mut out = String::from("{\"summary\":");
        out.push_str(&json::encode(&self.text));
        let _ = write!(out, ",\"_compact\":true,\"_original_items\":{}}}", self.total);
        out
    }
}

/// All items rendered once; pages of them differ in header and footer only.
struct Page<'p, 'w> {
    program: &'p CompactProgram,
    /// The items' texts, joined by line ends, and where each ends.
    lines: &'p str,
    ends: &'p [usize],
    total: usize,
    meter: Meter<'w>,
}

impl Page<'_, '_> {
    /// Bytes of the first `count` items.
    fn length(&self, count: usize) -> usize {
        count.checked_sub(1).map_or(0, |last| self.ends[last])
    }

    fn compose(&mut self, count: usize) -> Result<String, RenderError> {
        let items = (count > 0).then(|| &self.lines[..self.length(count)]);
        self.around(count, items)
    }

    /// Header and footer around the text of the items, if there is one.
    fn around(&mut self, count: usize, items: Option<&str>) -> Result<String, RenderError> {
        // Every page that is tried is written anew.
        self.meter.spend(items.map_or(0, str::len) / 64)?;
        let counts = format!(
            "{{\"Total\":{},\"Count\":{count},\"Remaining\":{}}}",
            self.total,
            self.total.saturating_sub(count)
        );
        let counts = json::parse(counts.as_bytes(), 1).unwrap_or(Node::NULL);
        let mut line = |template: Option<&Template>| -> Result<String, RenderError> {
            let mut text = String::new();
            if let Some(template) = template {
                template.render(&counts, &mut text, &mut self.meter)?;
            }
            Ok(text)
        };
        let header = line(self.program.header.as_ref())?;
        let footer = line(self.program.footer.as_ref())?;
        let given = |text| Some(text).filter(|text: &&str| !text.is_empty());
        let parts: Vec<&str> = [given(header.as_str()), items, given(footer.as_str())].into_iter().flatten().collect();
        Ok(parts.join("\n"))
    }

    fn fit(&mut self, limit: usize, original: usize) -> Result<Summary, RenderError> {
        let mut report = BudgetReport::new(limit, original);
        // Down by what is too much, then up again: header and footer change with the count, by a digit.
        let mut count = self.ends.partition_point(|&end| end <= limit);
        let mut text = String::new();
        let mut best = None;
        while count > 0 {
            text = self.compose(count)?;
            if text.len() <= limit {
                best = Some(count);
                break;
            }
            let room = self.length(count).saturating_sub(text.len() - limit);
            count = self.ends.partition_point(|&end| end <= room).min(count - 1);
        }
        while let Some(fitting) = best.filter(|&n| n < self.ends.len()) {
            let more = self.compose(fitting + 1)?;
            if more.len() > limit {
                break;
            }
            text = more;
            best = Some(fitting + 1);
        }
        let count = match best {
            Some(count) => count,
            None => {
                text = self.first_cut(limit, &mut report)?;
                usize::from(!self.ends.is_empty())
            }
        };
        report.items_dropped = self.ends.len() - count;
        report.result_bytes = text.len();
        Ok(Summary { text, count, total: self.total, silent: false, budget: Some(report) })
    }

    /// The first item alone, cut to what header and footer leave of `limit`.
    fn first_cut(&mut self, limit: usize, report: &mut BudgetReport) -> Result<String, RenderError> {
        report.strings_truncated = 1;
        let whole = self.compose(self.ends.len().min(1))?;
        let first = self.lines[..self.length(self.ends.len().min(1))].to_owned();
        let around = whole.len() - first.len();
        match limit.checked_sub(around) {
            Some(room) if room > 0 && !first.is_empty() => self.around(1, Some(&cut_to(&first, room))),
            _ => Ok(cut_to(&whole, limit)),
        }
    }
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

/// The place of a byte for people.
fn place(source: &str, offset: usize) -> String {
    let before = &source[..source.floor_char_boundary(offset)];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    if source.contains('\n') { format!("line {line}, column {column}") } else { format!("column {column}") }
}
