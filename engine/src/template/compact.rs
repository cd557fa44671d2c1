//! Stage 11, `compact`: renders a list as a text summary (seed kimbap: `response.compact`).

use super::{Meter, RenderError, Template};
use crate::answer::{Cost, Cut, Form, Frame, Items, cut_to};
use crate::json::{self, Node};
use crate::{BudgetReport, Bytes, CompactSpec, Finding};

/// The fields that header and footer may read.
const COUNTS: [&str; 3] = ["Total", "Count", "Remaining"];

/// A compiled [`CompactSpec`]. Immutable.
#[derive(Debug, Clone)]
pub struct CompactProgram {
    header: Option<Template>,
    item: Template,
    footer: Option<Template>,
}

/// A rendered summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Summary {
    /// The first text block.
    pub(crate) text: String,
    /// `.Count`: the number of items that are shown.
    pub(crate) count: usize,
    /// `.Total`: the number of items before `maxItems` and budget.
    pub(crate) total: usize,
    /// Whether there are items, but nothing of any of them was printed.
    pub(crate) silent: bool,
    /// Set if the budget made the text smaller.
    pub(crate) budget: Option<BudgetReport>,
}

/// The limit on a summary and its frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room<'f> {
    /// The budget.
    pub(crate) limit: Bytes,
    /// What is added to the summary.
    pub(crate) frame: Frame<'f>,
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

    /// Renders the header, one line for each item, and the footer, joined by line ends. A header or footer that
    /// renders to nothing is left out. `total` is the list's length before `maxItems`.
    ///
    /// With a budget, as many items are shown as fit, from the first. If not even one fits, its text is cut; if
    /// header and footer alone do not fit, the whole text is cut.
    ///
    /// # Errors The renderer reached a limit. Nothing in the data itself makes a rendering fail.
    pub(crate) fn render(
        &self,
        items: &[Node<'_>],
        total: usize,
        room: Option<Room<'_>>,
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
        let text = page.compose(items.len())?;
        let full = Summary { text, count: items.len(), total, silent, budget: None };
        match room {
            Some(room) if !room.cost(&full).fits(room.limit) => page.fit(room, full),
            _ => Ok(full),
        }
    }
}

impl Summary {
    /// Returns what the summary leaves out.
    pub(crate) fn cut(&self) -> Cut<'static> {
        let strings = self.budget.as_ref().is_some_and(|budget| budget.strings_truncated > 0);
        Cut { items: Items::cut(self.count, self.total), strings, ..Cut::default() }
    }

    /// Returns the structured content, `{"summary": .., "_compact": true, "_original_items": ..}`, with `members`
    /// appended.
    pub(crate) fn structured(&self, members: &str) -> String {
        let comma = if members.is_empty() { "" } else { "," };
        let (open, close) = (OPEN, counted(self.total));
        format!("{open}{}{close}{comma}{members}}}", json::encode(&self.text))
    }
}

/// The structured content before the summary.
const OPEN: &str = "{\"summary\":";

/// Returns the structured content after the summary, without `members` and the closing brace.
fn counted(total: usize) -> String {
    format!(",\"_compact\":true,\"_original_items\":{total}")
}

impl Room<'_> {
    /// Returns the cost of an answer with this summary.
    fn cost(&self, summary: &Summary) -> Cost {
        self.cost_of(&summary.text, summary.total, summary.cut())
    }

    fn cost_of(&self, text: &str, total: usize, cut: Cut<'_>) -> Cost {
        let object = OPEN.len() + json::encoded_len(text) + counted(total).len() + 1;
        self.frame.cost(text.len(), Form::Summary(object), cut)
    }

    fn holds(&self, summary: &Summary) -> bool {
        self.cost(summary).fits(self.limit)
    }
}

/// All items, rendered once; pages differ only in header and footer.
struct Page<'p, 'w> {
    program: &'p CompactProgram,
    /// The texts of the items, joined by line ends, and the end of each.
    lines: &'p str,
    ends: &'p [usize],
    total: usize,
    meter: Meter<'w>,
}

impl Page<'_, '_> {
    /// Returns the bytes of the first `count` items.
    fn length(&self, count: usize) -> usize {
        count.checked_sub(1).map_or(0, |last| self.ends[last])
    }

    fn compose(&mut self, count: usize) -> Result<String, RenderError> {
        let items = (count > 0).then(|| &self.lines[..self.length(count)]);
        self.around(count, items)
    }

    /// Adds header and footer to the text of the items, if there is one.
    fn around(&mut self, count: usize, items: Option<&str>) -> Result<String, RenderError> {
        let (header, footer) = self.edges(count)?;
        // Every page that is tried is copied in full.
        self.meter.spend(items.map_or(0, str::len) / 64)?;
        Ok(joined(&header, items, &footer))
    }

    /// Returns header and footer of a page with `count` items.
    fn edges(&mut self, count: usize) -> Result<(String, String), RenderError> {
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
        Ok((line(self.program.header.as_ref())?, line(self.program.footer.as_ref())?))
    }

    /// Returns the page with the first `count` items.
    fn page(&mut self, count: usize) -> Result<Summary, RenderError> {
        let text = self.compose(count)?;
        Ok(Summary { text, count, total: self.total, silent: false, budget: None })
    }

    /// Returns the page with as many items as fit into `room`; `full`, with all of them, does not fit.
    fn fit(&mut self, room: Room<'_>, full: Summary) -> Result<Summary, RenderError> {
        let mut report = BudgetReport::new(room.limit, room.cost(&full).counted());
        let (ends, silent) = (self.ends, full.silent);
        // In the structured content the lines are escaped.
        let (mut begin, mut bytes) = (0, 0);
        let mut escaped = Vec::with_capacity(ends.len());
        for &end in ends {
            bytes += json::encoded_len(&self.lines[begin..end]) - 2;
            begin = end;
            escaped.push(bytes);
        }
        // First shrink by the excess, then grow again: header, footer and notice change with the digits of the count.
        let mut page = full;
        while page.count > 0 && !room.holds(&page) {
            let Cost { blocks, structured } = room.cost(&page);
            let last = page.count - 1;
            let most = |ends: &[usize], cost: Bytes| {
                let room = ends[last].checked_sub(cost.0.saturating_sub(room.limit.0));
                room.map_or(0, |room| ends.partition_point(|&end| end <= room))
            };
            // One item may fit where its count has fewer digits.
            let least = usize::from(last > 0);
            page = self.page(most(ends, blocks).min(most(&escaped, structured)).min(last).max(least))?;
        }
        if page.count == 0 {
            report.strings_truncated = 1;
            page = self.first_cut(room)?;
        }
        while report.strings_truncated == 0 && page.count < ends.len() {
            let more = self.page(page.count + 1)?;
            if !room.holds(&more) {
                break;
            }
            page = more;
        }
        report.items_dropped = ends.len() - page.count;
        page.budget = Some(report.clone());
        let cost = room.cost(&page);
        let report = BudgetReport { result: cost.counted(), exceeded: !cost.fits(room.limit), ..report };
        Ok(Summary { silent, budget: Some(report), ..page })
    }

    /// Returns the first item alone, cut to the room that header and footer leave. If they leave none, returns the
    /// beginning of the whole text.
    fn first_cut(&mut self, room: Room<'_>) -> Result<Summary, RenderError> {
        let mut page = self.page(self.ends.len().min(1))?;
        // The room for text, in the first block and in the structured content, after everything that is not text.
        let left = |page: &Summary| {
            let Cost { blocks, structured } = room.cost_of("", page.total, Cut { strings: true, ..page.cut() });
            let left = |cost: Bytes| room.limit.0.saturating_sub(cost.0);
            (left(blocks), left(structured))
        };
        let (plain, coded) = left(&page);
        let first = &self.lines[..self.length(page.count)];
        let (header, footer) = self.edges(page.count)?;
        let beside = page.text.len() - first.len();
        let escaped = json::encoded_len(&page.text) - json::encoded_len(first);
        let shorter = match (plain.checked_sub(beside), coded.checked_sub(escaped)) {
            (Some(plain), Some(coded)) => cut_within(first, plain, coded),
            _ => String::new(),
        };
        if shorter.is_empty() {
            page.count = 0;
            let (plain, coded) = left(&page);
            page.text = cut_within(&page.text, plain, coded);
        } else {
            page.text = joined(&header, Some(&shorter), &footer);
        }
        Ok(page)
    }
}

/// Joins the parts of a summary. An empty header or footer takes no line.
fn joined(header: &str, items: Option<&str>, footer: &str) -> String {
    let given = |text| Some(text).filter(|text: &&str| !text.is_empty());
    let parts: Vec<&str> = [given(header), items, given(footer)].into_iter().flatten().collect();
    parts.join("\n")
}

/// Returns the beginning of `text`: at most `plain` bytes, and at most `coded` bytes as a JSON string without its
/// quotes.
fn cut_within(text: &str, plain: usize, coded: usize) -> String {
    let prefix = |room: usize| {
        let mut used = 0;
        let over = text.char_indices().find(|(at, c)| {
            used += json::encoded_len(&text[*at..*at + c.len_utf8()]) - 2;
            used > room
        });
        over.map_or(text.len(), |(at, _)| at)
    };
    let whole = prefix(coded);
    if whole == text.len() {
        return cut_to(text, plain);
    }
    match coded.checked_sub("...".len()).map(prefix) {
        Some(dotted) if dotted > 0 && plain > "...".len() => cut_to(text, plain.min(dotted + "...".len())),
        _ => text[..text.floor_char_boundary(whole.min(plain))].to_owned(),
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

/// Returns the place of a byte as line and column.
pub(crate) fn place(source: &str, offset: usize) -> String {
    let before = &source[..source.floor_char_boundary(offset)];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    if source.contains('\n') { format!("line {line}, column {column}") } else { format!("column {column}") }
}
