//! The list in a filtered document: where it is, the document with other items, and which items an answer shows.

use tamis_engine::json::{self, Node};
use tamis_engine::{Call, Input, ItemForms, Page, PageRequest, Program};

use super::JSON;

/// The nesting that the engine accepts.
const MAX_DEPTH: usize = 128;

/// A filtered document with a list of two or more items.
#[derive(Debug)]
pub(super) struct List<'t> {
    document: Node<'t>,
    /// The way to the list: by number, a member of an object or an element of an array.
    path: Vec<usize>,
    /// The items as compact JSON.
    pub(super) items: Vec<String>,
}

impl<'t> List<'t> {
    /// Finds the list that a budget would shorten. `text` is what `program` leaves of `input`, as JSON.
    ///
    /// Asks the program for the first item alone: the list is what that makes shorter, so this cannot differ from what a
    /// gateway does.
    pub(super) fn find(text: &'t str, program: &Program, input: Input<'_>) -> Option<Self> {
        let page = Page::new(PageRequest { limit: Some(1), ..PageRequest::default() }).ok()?;
        let first = program.apply(input, &Call { formats: Some(JSON), page, ..Call::default() }).ok()?;
        let document = json::parse(text.as_bytes(), MAX_DEPTH).ok()?;
        let path = shorter(&document, &json::parse(first.text.as_bytes(), MAX_DEPTH).ok()?)?;
        let items = at(&document, &path)?.as_array()?.iter().map(json::to_string).collect();
        Some(Self { document, path, items })
    }

    /// Returns the document with other items, each as compact JSON.
    pub(super) fn with(&self, items: &[String]) -> String {
        let list = format!("[{}]", items.join(","));
        let mut document = self.document.clone();
        if let Some(place) = at_mut(&mut document, &self.path) {
            *place = Node::Scalar(&list);
            return json::to_string(&document);
        }
        list
    }

    /// Returns the JSON Pointer of the list.
    pub(super) fn pointer(&self) -> String {
        let (mut node, mut pointer) = (&self.document, String::new());
        for &step in &self.path {
            let (name, below) = match node {
                Node::Object(members) => (members[step].key.decoded().into_owned(), &members[step].value),
                Node::Array(elements) => (step.to_string(), &elements[step]),
                Node::Scalar(_) | Node::String(_) => break,
            };
            pointer = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
            node = below;
        }
        pointer
    }
}

/// Returns the way to the first list that has fewer elements in `other`. Both are the same elsewhere.
fn shorter(document: &Node<'_>, other: &Node<'_>) -> Option<Vec<usize>> {
    let below = |number: usize, (one, other): (&Node<'_>, &Node<'_>)| {
        shorter(one, other).map(|path| [vec![number], path].concat())
    };
    match (document, other) {
        (Node::Array(all), Node::Array(some)) if some.len() < all.len() => Some(Vec::new()),
        (Node::Array(one), Node::Array(two)) => {
            one.iter().zip(two).enumerate().find_map(|(number, pair)| below(number, pair))
        }
        (Node::Object(one), Node::Object(two)) => {
            let values = one.iter().zip(two).map(|(one, two)| (&one.value, &two.value));
            values.enumerate().find_map(|(number, pair)| below(number, pair))
        }
        _ => None,
    }
}

fn at<'d, 't>(node: &'d Node<'t>, path: &[usize]) -> Option<&'d Node<'t>> {
    path.iter().try_fold(node, |node, step| match node {
        Node::Object(members) => members.get(*step).map(|member| &member.value),
        Node::Array(elements) => elements.get(*step),
        Node::Scalar(_) | Node::String(_) => None,
    })
}

fn at_mut<'d, 't>(node: &'d mut Node<'t>, path: &[usize]) -> Option<&'d mut Node<'t>> {
    path.iter().try_fold(node, |node, step| match node {
        Node::Object(members) => members.get_mut(*step).map(|member| &mut member.value),
        Node::Array(elements) => elements.get_mut(*step),
        Node::Scalar(_) | Node::String(_) => None,
    })
}

/// Returns which item an answer shows in which form, of an answer that is JSON: pairs of item and form, in order.
/// Returns `None` if what it shows is a form of no item, because strings were cut.
pub(super) fn shown_in_json(list: &List<'_>, forms: &[ItemForms<'_, '_>], text: &str) -> Option<Vec<(usize, usize)>> {
    let document = json::parse(text.as_bytes(), MAX_DEPTH).ok()?;
    let mut next = 0;
    let shown = at(&document, &list.path)?.as_array()?.iter().map(|shown| {
        let shown = json::to_string(shown);
        let found = (next..forms.len()).find_map(|item| {
            let measured = forms[item].measure();
            let form = (0..measured.len())
                .find(|form| measured[*form].bytes == shown.len() && forms[item].json(*form) == shown);
            form.map(|form| (item, form))
        })?;
        next = found.0 + 1;
        Some(found)
    });
    shown.collect()
}

/// Returns the numbers of the items that an answer shows, as its index names them. Returns `None` if the index names none.
pub(super) fn shown_by_index(notice: &str) -> Option<Vec<usize>> {
    let line = notice.lines().find(|line| line.ends_with("<< returned in this response"));
    if let Some(place) = line.and_then(|line| line.split_once(" (")?.1.split_once(')')).map(|(place, _)| place) {
        if let Some(items) = place.strip_prefix("items=") {
            return items.split(',').map(range).collect::<Option<Vec<_>>>().map(|ranges| ranges.concat());
        }
        let (offset, limit) = place.strip_prefix("offset=")?.split_once(", limit=")?;
        let offset: usize = offset.parse().ok()?;
        return Some((offset..offset.checked_add(limit.parse().ok()?)?).collect());
    }
    // In one line: the items from the beginning.
    let next = notice.lines().last()?.strip_suffix(" for more")?.rsplit_once(", offset=")?.1;
    Some((0..next.parse().ok()?).collect())
}

/// Parses `4` or `4-7`.
fn range(text: &str) -> Option<Vec<usize>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then(|| (first..=last).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tamis_engine::{CompileOptions, FilterSpec, OutputSpec, ToolFilter, compile};

    fn program(preset: &str) -> Program {
        let output = OutputSpec { preset: Some(preset.to_owned()), ..OutputSpec::default() };
        let filter = FilterSpec { output: Some(Box::new(output)), ..FilterSpec::default() };
        compile(&ToolFilter::Single(Box::new(filter)), &CompileOptions::default()).program.expect("a valid filter")
    }

    #[test]
    fn the_list_is_where_a_window_shortens_it() {
        for (document, pointer) in [
            (r#"[{"id":1},{"id":2}]"#, Some("")),
            (r#"{"total":2,"items":[{"id":1},{"id":2}]}"#, Some("/items")),
            (r#"{"a/b":[[1],[2]],"c":1}"#, Some("/a~1b")),
            (r#"{"id":1}"#, None),
            ("[1]", None),
            ("7", None),
        ] {
            let found = List::find(document, &program("issues"), Input::Json(document.as_bytes()));
            assert_eq!(found.as_ref().map(List::pointer).as_deref(), pointer, "{document}");
            if let Some(list) = found {
                assert_eq!(list.with(&list.items), document);
            }
        }
    }

    #[test]
    fn items_are_recognized_in_their_forms() {
        let document = r#"{"items":[{"id":1,"url":"u"},{"id":2,"url":"v"},{"id":3,"url":"w"}]}"#;
        let program = program("issues");
        let list = List::find(document, &program, Input::Json(document.as_bytes())).expect("a list");
        let items: Vec<&str> = list.items.iter().map(String::as_str).collect();
        let forms = program.forms(&items, false);
        let shown = |text: &str| shown_in_json(&list, &forms, text);
        assert_eq!(shown(document), Some(vec![(0, 0), (1, 0), (2, 0)]));
        assert_eq!(shown(r#"{"items":[{"id":1,"url":"u"},{"id":3}]}"#), Some(vec![(0, 0), (2, 1)]));
        assert_eq!(shown(r#"{"items":[{"id":3},{"id":1}]}"#), None);
        assert_eq!(shown(r#"{"items":[{"id":4}]}"#), None);
    }

    #[test]
    fn an_index_names_what_is_shown() {
        let returned = "<< returned in this response";
        for (notice, items) in [
            (
                format!("[chunks] 3/9 diffs in 2 chunks:\nchunk 1 (offset=2, limit=3): a (b) {returned}\n"),
                Some(vec![2, 3, 4]),
            ),
            (format!("x\nchunk 1 (items=0,4-5): 3 items {returned}\nchunk 2 (offset=1, limit=3)"), Some(vec![0, 4, 5])),
            (format!("chunk 1 (300 items): 1..9 {returned}"), None),
            (format!("chunk 1 (items=5-4): 1..9 {returned}"), None),
            ("[chunks] 2/52 diffs, offset=2 for more".to_owned(), Some(vec![0, 1])),
            ("[chunks] 2/52 diffs, chunk=2 for more".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(shown_by_index(&notice), items, "{notice}");
        }
    }
}
