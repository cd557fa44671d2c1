//! Whether a filter is an allow-list, and which fields a template can see.

use super::check::Findings;
use super::fields::{drops_member, first_structural, structural};
use super::pointers::covers;
use crate::FilterSpec;
use crate::program::{Index, Name, Root, Segment};
use crate::template::CompactProgram;

/// Returns whether only what the filter names passes: with `retain` without globs, with `select` that leaves no
/// siblings of the payload, or with `text.keep`. A member that the upstream adds to an object then does not pass,
/// unless the filter names that object as a whole.
pub(super) fn is_allow_list(spec: &FilterSpec, retained: Option<&[Vec<Segment>]>, root: &Root) -> bool {
    let selects = spec.select.as_ref().is_some_and(|select| !select.is_empty());
    let alone = spec.retain.is_none() || matches!(root, Root::Document | Root::List);
    let retains = retained.is_some_and(|paths| paths.iter().all(|path| keeps_by_name(path)));
    let keeps = !structural(spec) && spec.text.as_ref().is_some_and(|text| !text.keep.is_empty());
    !spec.passthrough && (retains || (selects && alone) || keeps)
}

/// Returns whether a path of `retain` names what it keeps.
fn keeps_by_name(path: &[Segment]) -> bool {
    path.iter().any(|segment| matches!(segment, Segment::Name(_))) && !has_globs(path)
}

fn has_globs(path: &[Segment]) -> bool {
    path.iter().any(|segment| matches!(segment, Segment::Glob(_) | Segment::Deep))
}

/// Warns that a filter under `Enforced` is not an allow-list.
pub(super) fn warn(spec: &FilterSpec, retained: Option<&[Vec<Segment>]>, findings: &mut Findings<'_>) {
    let mut told = false;
    for (i, _) in retained.unwrap_or_default().iter().enumerate().filter(|(_, path)| has_globs(path)) {
        told = true;
        findings.warning(
            &format!("retain[{i}]"),
            "keeps whatever matches, also a member that the upstream adds later: it is no allow-list",
            "name what may pass without `**` and without a `*` in a name",
        );
    }
    let lines = spec.text.is_some() && !structural(spec);
    if lines {
        findings.warning(
            "text",
            "passes every line that it does not name, also of a kind that the upstream adds later",
            "name the lines that may pass with `text.keep`",
        );
    } else if structural(spec) && !told {
        findings.warning(
            if spec.exclude.is_some() { "exclude" } else { first_structural(spec) },
            "passes everything that the filter does not name, also a member that the upstream adds later",
            "name what may pass with `select` or `retain`",
        );
    }
}

/// What the stages on JSON leave of an item.
#[derive(Clone, Copy)]
pub(super) struct Shown<'s> {
    pub(super) spec: &'s FilterSpec,
    /// The paths of `retain`.
    pub(super) retained: Option<&'s [Vec<Segment>]>,
    /// The paths of `exclude`.
    pub(super) excluded: &'s [Option<Vec<Segment>>],
    pub(super) root: &'s Root,
}

/// The stage that never leaves a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HiddenBy {
    Select,
    Exclude,
    Retain,
}

impl HiddenBy {
    /// Returns what the stage does with the field.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Select => "is not among the keys that `select` gives",
            Self::Exclude => "is dropped by `exclude`",
            Self::Retain => "is not among what `retain` keeps",
        }
    }
}

impl Shown<'_> {
    /// Returns the stage that never leaves the field at `path` in an item.
    pub(super) fn hides(&self, path: &[Name]) -> Option<HiddenBy> {
        let name = &*path.first()?.text;
        let select = self.spec.select.as_ref().filter(|select| !select.is_empty());
        let patched = self.spec.patches.as_ref().is_some_and(|patches| !patches.is_empty());
        let whole: Vec<Segment> = path.iter().cloned().map(Segment::Name).collect();
        let drops = |excluded: &Vec<Segment>| drops_member(excluded, name) || covers(excluded, &whole);
        if select.is_some_and(|select| !select.contains_key(name)) {
            Some(HiddenBy::Select)
        } else if self.excluded.iter().flatten().any(drops) {
            Some(HiddenBy::Exclude)
        } else if select.is_none()
            && !patched
            && self.retained.is_some_and(|paths| !paths.iter().any(|path| may_keep_field(path, self.root, name)))
        {
            Some(HiddenBy::Retain)
        } else {
            None
        }
    }
}

/// Warns about fields of a template that the stages before it never leave.
pub(super) fn check_template(shown: Shown<'_>, compact: &CompactProgram, findings: &mut Findings<'_>) {
    for name in compact.item_fields() {
        let Some(hidden) = shown.hides(&[Name::new(name)]) else { continue };
        let remedy = match hidden {
            HiddenBy::Select => "name one of those keys, or add the field to `select`",
            HiddenBy::Exclude => "remove it from the template, or from `exclude`",
            HiddenBy::Retain => "add it to `retain`, or remove it from the template",
        };
        findings.warning("compact.item", format!("`.{name}` {}, so it prints nothing", hidden.as_str()), remedy);
    }
}

/// Returns whether a path of `retain` may leave the member `field` in an item of the payload's list.
fn may_keep_field(path: &[Segment], root: &Root, field: &str) -> bool {
    match root {
        Root::Pointer(pointer) => below(path, &pointer.segments, field),
        Root::List => below(path, &[], field),
        // The list may be the document, or a member of it.
        Root::Document | Root::Unused | Root::Detect => {
            below(path, &[], field) || path.split_first().is_some_and(|(_, rest)| below(rest, &[], field))
        }
    }
}

fn below(path: &[Segment], way: &[Name], field: &str) -> bool {
    let Some((first, rest)) = path.split_first() else { return true };
    if *first == Segment::Deep {
        return true;
    }
    match way.split_first() {
        Some((name, way)) => {
            let here = match first {
                Segment::Name(own) => own == name,
                Segment::Any | Segment::Deep => true,
                Segment::Glob(glob) => glob.matches(&name.text),
            };
            (here && below(rest, way, field)) || (name.index != Index::None && below(path, way, field))
        }
        None => match first {
            // An element of the list: the rest of the path is relative to it.
            Segment::Any => rest.first().is_none_or(|segment| segment.is_member(field)),
            Segment::Name(Name { index: Index::At(_), .. }) => {
                rest.first().is_none_or(|segment| segment.is_member(field))
            }
            mapped => mapped.is_member(field),
        },
    }
}
