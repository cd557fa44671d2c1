//! The fields of one filter object.

use std::sync::Arc;

use indexmap::IndexMap;

use super::check::{Findings, keyed};
use super::pointers::{self, covers, may_keep};
use super::{CompileOptions, Enforcement, ResponseType, allow_list, leak_check, output, patches, select};
use crate::program::{
    Branch, Exclude, Field, Guard, Index, Name, OutputProgram, Pointer, Retain, Root, Segment, SelectNames, Trie,
};
use crate::template::CompactProgram;
use crate::text::TextProgram;
use crate::{FilterSpec, OutputSpec, json};

/// Compiles one filter object, or one branch of a list. Returns `None` if a part of it does not compile; the findings
/// then hold an error.
pub(super) fn branch(
    spec: &FilterSpec,
    guard: Guard,
    options: &CompileOptions,
    findings: &mut Findings<'_>,
) -> Option<Branch> {
    let FilterSpec {
        // The caller has made the guard from these.
        test: _,
        otherwise: _,
        passthrough: as_it_is,
        retain: pointers,
        patches: operations,
        // Functions below read these from `spec`: what they compile to depends on other stages.
        root: _,
        select: _,
        exclude: _,
        max_items: limit,
        drop_nulls,
        drop_empty,
        text: lines,
        output: answer,
        compact: templates,
    } = spec;
    let errors = findings.errors();
    let enforced = options.enforcement == Enforcement::Enforced;
    if *as_it_is {
        passthrough(spec, findings);
    } else if !has_stages(spec) {
        let (message, remedy) = ("has no stage: the output passes as it is", "say so with `passthrough: true`");
        let field = if lines.is_some() { "text" } else { "passthrough" };
        if enforced {
            findings.error(field, message, remedy);
        } else if matches!(guard, Guard::Always) {
            findings.warning(field, message, remedy);
        }
    }
    let retain = pointers.as_deref().and_then(|paths| retain(paths, findings));
    let paths = retain.as_ref().map(|(_, paths)| paths.as_slice());
    let patches = operations.as_deref().unwrap_or_default();
    let mut patches = if within_entry_limit("patches", patches.len(), findings) {
        patches::compile(patches, paths, findings)
    } else {
        Vec::new()
    };
    patches.shrink_to_fit();
    let root = root(spec, paths, options, findings);
    let max_items = max_items(*limit, findings);
    let select = fields(spec, findings);
    let (exclude, excluded) = exclude(spec, enforced, findings);
    let text = lines
        .as_ref()
        .and_then(|text| TextProgram::compile(text, findings.patterns).map_err(|found| findings.extend(found)).ok());
    let shown = allow_list::Shown { spec, retained: paths, excluded: &excluded, root: &root };
    let output = match answer {
        Some(answer) => Arc::new(output::compile(answer, options.tool, shown, enforced, findings)),
        None => OutputProgram::shared(options.tool),
    };
    let compact =
        templates.as_ref().and_then(|compact| CompactProgram::compile(compact).map_err(|f| findings.extend(f)).ok());
    check_shape(spec, &root, options, findings);
    let allow_list = allow_list::is_allow_list(spec, paths, &root);
    if enforced && !as_it_is && !allow_list {
        allow_list::warn(spec, paths, findings);
    }
    if let Some(compact) = &compact {
        allow_list::check_template(shown, compact, findings);
    }
    let whole = retain.as_ref().map(|(_, paths)| paths.clone());
    let named = spec.root.is_some() || options.response_type == Some(ResponseType::Object);
    let branch = Branch {
        guard,
        allow_list,
        passthrough: *as_it_is,
        retain: retain.map(|(retain, _)| Box::new(retain)),
        patches,
        root,
        detects_list: !enforced && !named && !works_on_items(spec),
        max_items,
        select_names: SelectNames::default(),
        select_multiplies: select.iter().enumerate().any(|(i, field)| select[..i].iter().any(|f| f.overlaps(field))),
        select: select.into(),
        exclude: if exclude.is_empty() { Exclude::none() } else { Arc::new(exclude) },
        drop_nulls: *drop_nulls || *drop_empty,
        drop_empty: *drop_empty,
        text: text.map(Box::new),
        output,
        compact: compact.map(Box::new),
    };
    if enforced {
        leak_check::check(&branch, whole.as_deref(), findings);
    }
    (findings.errors() == errors).then_some(branch)
}

/// Which kinds of stages a filter has. A new field does not compile until it is listed here.
struct Stages {
    /// Stages that work on the document.
    document: bool,
    /// Stages that work on the payload.
    payload: bool,
    /// Stages that work on lines.
    text: bool,
    /// A budget or a format, which work on anything.
    output: bool,
}

impl Stages {
    fn of(spec: &FilterSpec) -> Self {
        let FilterSpec {
            // These say when the filter applies, and whether it has stages at all.
            test: _,
            otherwise: _,
            passthrough: _,
            retain,
            patches,
            root,
            // See `works_on_items`.
            max_items: _,
            select: _,
            exclude: _,
            drop_nulls,
            drop_empty,
            text,
            output,
            compact,
        } = spec;
        Self {
            document: retain.is_some() || patches.as_ref().is_some_and(|patches| !patches.is_empty()),
            payload: root.is_some() || works_on_items(spec) || *drop_nulls || *drop_empty || compact.is_some(),
            text: text.is_some(),
            output: output
                .as_ref()
                .is_some_and(|output| OutputSpec { notice: None, ..(**output).clone() } != OutputSpec::default()),
        }
    }
}

/// Returns whether the filter has a stage that works on JSON.
pub(super) fn structural(spec: &FilterSpec) -> bool {
    let Stages { document, payload, text: _, output: _ } = Stages::of(spec);
    document || payload
}

fn needs_payload(spec: &FilterSpec) -> bool {
    Stages::of(spec).payload
}

/// Returns whether a stage needs to know the items. Without such a stage, `dropNulls` and `dropEmpty` act on the
/// whole document (`filters.md`, "Payload root").
fn works_on_items(spec: &FilterSpec) -> bool {
    spec.max_items.is_some_and(|n| n != 0)
        || spec.select.is_some()
        || spec.exclude.as_ref().is_some_and(|e| !e.is_empty())
}

fn has_stages(spec: &FilterSpec) -> bool {
    let Stages { document, payload, text, output } = Stages::of(spec);
    document || payload || text || output
}

fn passthrough(spec: &FilterSpec, findings: &mut Findings<'_>) {
    let bare =
        FilterSpec { passthrough: true, test: spec.test.clone(), otherwise: spec.otherwise, ..FilterSpec::default() };
    if *spec != bare {
        findings.error("passthrough", "excludes every other stage", "remove `passthrough`, or the stages");
    }
}

/// The entries that one list may have. The stages, and the checks below, take time for each entry.
const MAX_ENTRIES: usize = 1000;

/// Returns whether a list has no more than [`MAX_ENTRIES`] entries, and reports an error if it has more.
pub(super) fn within_entry_limit(field: &str, entries: usize, findings: &mut Findings<'_>) -> bool {
    if entries > MAX_ENTRIES {
        let message = format!("has {entries} entries, at most {MAX_ENTRIES} are allowed");
        findings.error(field, message, "name what holds them, or use `*`");
    }
    entries <= MAX_ENTRIES
}

fn retain(paths: &[String], findings: &mut Findings<'_>) -> Option<(Retain, Vec<Vec<Segment>>)> {
    if !within_entry_limit("retain", paths.len(), findings) {
        return None;
    }
    if paths.is_empty() {
        findings.error("retain", "is empty, which would keep nothing", "name what to keep, or remove `retain`");
        return None;
    }
    let parsed: Vec<_> = paths
        .iter()
        .enumerate()
        .map(|(i, path)| findings.record(&format!("retain[{i}]"), pointers::extended(path)))
        .collect();
    let mut trie = Trie::default();
    for (i, path) in parsed.iter().enumerate() {
        let Some(path) = path else { continue };
        let field = format!("retain[{i}]");
        warn_trailing_slash(&field, &paths[i], findings);
        // Of equal paths the first stays.
        let covering = parsed.iter().enumerate().find(|(j, other)| {
            other.as_ref().is_some_and(|other| {
                *j != i && covers(other, path) && (*j < i || other.len() < path.len() || other != path)
            })
        });
        match covering {
            Some((j, _)) => findings.warning(
                &field,
                format!("is kept already by `retain[{j}]` (`{}`)", paths[j]),
                "remove one of the two paths",
            ),
            None => trie.insert(path, i),
        }
    }
    trie.shrink();
    limit_globs("retain", &parsed, findings);
    let parsed: Option<Vec<_>> = parsed.into_iter().collect();
    Some((Retain { trie, paths: paths.iter().map(|p| p.as_str().into()).collect() }, parsed?))
}

fn root(
    spec: &FilterSpec,
    retained: Option<&[Vec<Segment>]>,
    options: &CompileOptions,
    findings: &mut Findings<'_>,
) -> Root {
    let enforced = options.enforcement == Enforcement::Enforced;
    if let Some(text) = &spec.root {
        let Some(pointer) = findings.record("root", pointers::strict(text)) else { return Root::Unused };
        warn_star("root", &pointer, findings);
        warn_trailing_slash("root", text, findings);
        if retained.is_some_and(|paths| !paths.iter().any(|kept| may_keep(kept, &pointer.segments))) {
            let (message, remedy) = (format!("`{text}` is not among what `retain` keeps"), "add it to `retain`");
            findings.warning("root", message, remedy);
        }
        return if pointer.segments.is_empty() { Root::Document } else { Root::Pointer(Box::new(pointer)) };
    }
    if !needs_payload(spec) {
        return Root::Unused;
    }
    match options.response_type {
        Some(ResponseType::Object) => Root::Document,
        _ if !enforced && !works_on_items(spec) => Root::Document,
        Some(ResponseType::Array) => Root::List,
        Some(ResponseType::Text) | None if enforced => {
            for (given, field) in [
                (spec.max_items.is_some_and(|n| n != 0), "maxItems"),
                (spec.select.is_some(), "select"),
                (spec.exclude.is_some(), "exclude"),
            ] {
                if given && options.response_type.is_none() {
                    findings.error(
                        field,
                        "needs `root` under `Enforced`: the payload is named there, not guessed",
                        "add `root: \"\"` for the whole document or the pointer of the payload, or declare `response.type`",
                    );
                }
            }
            Root::Document
        }
        _ => Root::Detect,
    }
}

fn max_items(value: Option<i64>, findings: &mut Findings<'_>) -> Option<usize> {
    let value = value?;
    if value < 0 {
        findings.error(
            "maxItems",
            format!("{value} is negative"),
            "give the number of items to keep, or 0 for no limit",
        );
    }
    usize::try_from(value).ok().filter(|n| *n > 0)
}

fn fields(spec: &FilterSpec, findings: &mut Findings<'_>) -> Vec<Field> {
    let Some(select) = &spec.select else { return Vec::new() };
    if select.is_empty() {
        findings.error("select", "is empty, which would keep nothing", "name the fields to keep, or remove `select`");
    }
    if !within_entry_limit("select", select.len(), findings) {
        return Vec::new();
    }
    let mut out = Vec::with_capacity(select.len());
    for (key, source) in select {
        let field = keyed("select", key);
        if key.is_empty() {
            findings.error(&field, "the output key is empty", "give the member a name");
        }
        let Some(path) = findings.record(&field, select::path(source)) else { continue };
        if source.starts_with('/') {
            let name = source.trim_start_matches('/').replace('/', ".");
            findings.warning(
                &field,
                format!("`{source}` is the name of one member here, not a pointer"),
                format!("write `{name}`"),
            );
        }
        out.push(Field {
            name: key.as_str().into(),
            key: json::encode(key).into(),
            source: source.as_str().into(),
            path: path.into(),
        });
    }
    out
}

/// Compiles `exclude`. Also returns the path of each entry that compiles.
fn exclude(spec: &FilterSpec, enforced: bool, findings: &mut Findings<'_>) -> (Exclude, Vec<Option<Vec<Segment>>>) {
    let entries = spec.exclude.as_deref().unwrap_or_default();
    if !within_entry_limit("exclude", entries.len(), findings) {
        return (Exclude::default(), Vec::new());
    }
    let mut paths: Vec<Option<Vec<Segment>>> = Vec::with_capacity(entries.len());
    for (i, entry) in entries.iter().enumerate() {
        let field = format!("exclude[{i}]");
        paths.push(if entry.is_empty() {
            findings.error(
                &field,
                "the name is empty",
                "name the member to drop (`/` drops the one whose key is empty)",
            );
            None
        } else if entries[..i].contains(entry) {
            findings.warning(&field, format!("`{entry}` is there twice"), "remove one");
            None
        } else if entry.starts_with('/') {
            findings.record(&field, pointers::extended(entry))
        } else {
            let segment = pointers::member(entry);
            check_dots(&field, entry, enforced, findings);
            check_selected(&field, entry, &segment, spec, findings);
            Some(vec![segment])
        });
    }
    limit_globs("exclude", &paths, findings);
    let select = spec.select.as_ref().filter(|select| !select.is_empty());
    let (mut trie, mut names, mut missable_entries) = (Trie::default(), Vec::new(), Vec::with_capacity(paths.len()));
    for (i, path) in paths.iter().enumerate() {
        let mut missable = None;
        if let Some(path) = path {
            let covering = paths.iter().enumerate().find(|(j, other)| {
                let other = other.as_ref().filter(|other| *j != i && covers(other, path));
                other.is_some_and(|other| *j < i || other != path)
            });
            if let Some((j, _)) = covering {
                findings.warning(
                    &format!("exclude[{i}]"),
                    format!("is dropped already by `exclude[{j}]` (`{}`)", entries[j]),
                    "remove one of the two",
                );
            } else {
                trie.insert(path, i);
                if let [Segment::Name(Name { text, index: Index::None })] = path.as_slice() {
                    names.push(text.clone());
                }
                let given = |select: &IndexMap<String, String>| select.keys().any(|key| path[0].is_member(key));
                missable = select.is_none_or(given).then(|| entries[i].as_str().into());
            }
        }
        missable_entries.push(missable);
    }
    let dropped = |key: &String| paths.iter().flatten().any(|path| drops_member(path, key));
    if select.is_some_and(|select| select.keys().all(dropped)) {
        findings.error("exclude", "drops every field that `select` keeps", "remove the fields to keep from `exclude`");
    }
    trie.shrink();
    (Exclude { trie, names: names.into(), entries: missable_entries.into() }, paths)
}

/// Returns whether an entry of `exclude` drops the member `key` of an item.
pub(super) fn drops_member(path: &[Segment], key: &str) -> bool {
    match path {
        [Segment::Deep, rest @ ..] if !rest.is_empty() => drops_member(rest, key),
        [segment] => segment.is_member(key),
        _ => false,
    }
}

/// The segments with a `*` in them that one list may have: each is compared with every name that it may match.
const MAX_GLOBS: usize = 64;
/// The `**` segments that one list may have: each is followed at every place below its own.
const MAX_DEEP: usize = 16;

pub(super) fn limit_globs(field: &str, paths: &[Option<Vec<Segment>>], findings: &mut Findings<'_>) {
    let count =
        |wanted: fn(&Segment) -> bool| paths.iter().flatten().flatten().filter(|segment| wanted(segment)).count();
    for (segments, most, what) in [
        (count(|segment| matches!(segment, Segment::Glob(_))), MAX_GLOBS, "segments with a `*` in them"),
        (count(|segment| matches!(segment, Segment::Deep)), MAX_DEEP, "segments `**`"),
    ] {
        if segments > most {
            let message = format!("has {segments} {what}, at most {most} are allowed");
            findings.error(field, message, "name the members, or what holds them");
        }
    }
}

fn check_dots(field: &str, entry: &str, enforced: bool, findings: &mut Findings<'_>) {
    if !entry.contains('.') {
        return;
    }
    let message = format!("`{entry}` is the name of one member with dots in it, not a path");
    let remedy = format!("write `/{}` to drop the nested one, `/{entry}` for that name", entry.replace('.', "/"));
    if enforced {
        findings.error(field, message, remedy);
    } else {
        findings.warning(field, message, remedy);
    }
}

/// Warns about an entry that names no output key of `select`: after `select` an item has only its output keys.
fn check_selected(field: &str, entry: &str, segment: &Segment, spec: &FilterSpec, findings: &mut Findings<'_>) {
    let Some(select) = &spec.select else { return };
    if !select.is_empty() && !select.keys().any(|key| segment.is_member(key)) {
        findings.warning(
            field,
            format!("`{entry}` is not among the keys that `select` gives"),
            "remove it: `select` keeps nothing else",
        );
    }
}

/// Reports stages that cannot work on the declared or chosen shape of the output.
fn check_shape(spec: &FilterSpec, root: &Root, options: &CompileOptions, findings: &mut Findings<'_>) {
    let enforced = options.enforcement == Enforcement::Enforced;
    let structural = structural(spec);
    if options.response_type == Some(ResponseType::Text) && structural {
        let (message, remedy) =
            ("the output is declared to be text, which only `text` works on", "use `text`, or change `response.type`");
        let field = first_structural(spec);
        if enforced { findings.error(field, message, remedy) } else { findings.warning(field, message, remedy) }
    }
    if enforced && structural && spec.text.is_some() {
        findings.warning(
            "text",
            "never applies: under `Enforced`, output that is not JSON is an error when the filter has other stages",
            "remove `text`, or the other stages",
        );
    }
    let object =
        options.response_type == Some(ResponseType::Object) && matches!(root, Root::Document) && spec.root.is_none();
    if object && spec.max_items.is_some_and(|n| n != 0) {
        findings.warning(
            "maxItems",
            "does nothing: the output is declared to be an object",
            "name the list with `root`",
        );
    }
    if object && spec.compact.is_some() {
        let (message, remedy) =
            ("needs a list, and the output is declared to be an object", "name the list with `root`");
        if enforced { findings.error("compact", message, remedy) } else { findings.warning("compact", message, remedy) }
    }
}

/// Returns the first field that makes a filter structural.
pub(super) fn first_structural(spec: &FilterSpec) -> &'static str {
    let FilterSpec {
        test: _,
        otherwise: _,
        passthrough: _,
        retain,
        patches,
        root,
        max_items,
        select,
        exclude,
        drop_nulls,
        drop_empty,
        text: _,
        output: _,
        compact: _,
    } = spec;
    [
        (retain.is_some(), "retain"),
        (patches.is_some(), "patches"),
        (root.is_some(), "root"),
        (max_items.is_some(), "maxItems"),
        (select.is_some(), "select"),
        (exclude.is_some(), "exclude"),
        (*drop_nulls, "dropNulls"),
        (*drop_empty, "dropEmpty"),
    ]
    .into_iter()
    .find_map(|(given, field)| given.then_some(field))
    .unwrap_or("compact")
}

/// Warns about a `*` in a strict pointer: it is a wildcard in `retain` and `exclude` only.
pub(super) fn warn_star(field: &str, pointer: &Pointer, findings: &mut Findings<'_>) {
    if pointer.segments.iter().any(|name| &*name.text == "*") {
        findings.warning(
            field,
            "`*` is an ordinary key here",
            "use `retain` or `exclude` to reach every element, or an index for one",
        );
    }
}

pub(super) fn warn_trailing_slash(field: &str, text: &str, findings: &mut Findings<'_>) {
    if text.ends_with('/') {
        findings.warning(field, format!("`{text}` names a member whose key is empty"), "remove the last `/`");
    }
}
