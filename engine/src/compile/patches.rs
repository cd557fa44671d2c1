//! Compiles JSON Patch operations.

use super::check::{Findings, Problem};
use super::fields::{warn_star, warn_trailing_slash};
use super::pointers::{may_keep, strict};
use crate::PatchSpec;
use crate::json::JsonText;
use crate::program::{Index, Name, Patch, Pointer, Segment};

const OPERATIONS: [&str; 6] = ["add", "remove", "replace", "move", "copy", "test"];

/// Compiles the operations. `retained` are the paths of `retain`, if there is one.
pub(super) fn compile(
    specs: &[PatchSpec],
    retained: Option<&[Vec<Segment>]>,
    findings: &mut Findings<'_>,
) -> Vec<Patch> {
    let mut patches = Vec::with_capacity(specs.len());
    for (i, spec) in specs.iter().enumerate() {
        let field = format!("patches[{i}]");
        if let Some(patch) = operation(spec, &field, findings) {
            if let Some(retained) = retained {
                check_reachable(&patch, &field, retained, &patches, findings);
            }
            patches.push(patch);
        }
    }
    patches
}

fn operation(spec: &PatchSpec, field: &str, findings: &mut Findings<'_>) -> Option<Patch> {
    let known = OPERATIONS.contains(&spec.op.as_str());
    if !known {
        let problem = unknown_operation(&spec.op);
        findings.error(&format!("{field}.op"), problem.message, problem.remedy);
    }
    let path = pointer(spec.path.as_deref(), &format!("{field}.path"), findings);
    let takes_from = matches!(spec.op.as_str(), "move" | "copy");
    let from = if takes_from {
        pointer(spec.from.as_deref(), &format!("{field}.from"), findings)
    } else {
        if known && spec.from.is_some() {
            let message = format!("`{}` takes no `from`", spec.op);
            findings.error(&format!("{field}.from"), message, "remove it, or use `move` or `copy`");
        }
        None
    };
    let takes_value = matches!(spec.op.as_str(), "add" | "replace" | "test");
    if takes_value && spec.value.is_none() {
        findings.error(
            &format!("{field}.value"),
            format!("is missing: `{}` needs it", spec.op),
            "give a value; `null` is one",
        );
    } else if known && !takes_value && spec.value.is_some() {
        findings.warning(&format!("{field}.value"), format!("`{}` takes no value", spec.op), "remove it");
    }
    let value = || -> Option<JsonText> { spec.value.clone() };
    let patch = match spec.op.as_str() {
        "add" => Patch::Add { path: path?, value: value()? },
        "remove" => Patch::Remove { path: path? },
        "replace" => Patch::Replace { path: path?, value: value()? },
        "move" => Patch::Move { from: from?, path: path? },
        "copy" => Patch::Copy { from: from?, path: path? },
        "test" => Patch::Test { path: path?, value: value()? },
        _ => return None,
    };
    check_effect(&patch, field, findings);
    Some(patch)
}

fn pointer(text: Option<&str>, field: &str, findings: &mut Findings<'_>) -> Option<Pointer> {
    let Some(text) = text else {
        findings.error(field, "is missing", "give a JSON Pointer, such as `/user/email`");
        return None;
    };
    let pointer = findings.record(field, strict(text))?;
    warn_star(field, &pointer, findings);
    warn_trailing_slash(field, text, findings);
    Some(pointer)
}

fn unknown_operation(op: &str) -> Problem {
    let lower = op.to_lowercase();
    let meant = match lower.as_str() {
        "delete" | "del" | "drop" => Some("remove"),
        "set" | "update" => Some("replace"),
        "insert" | "append" => Some("add"),
        "rename" => Some("move"),
        _ => OPERATIONS
            .iter()
            .map(|known| (strsim::damerau_levenshtein(&lower, known), *known))
            .min()
            .filter(|(distance, _)| *distance <= 2)
            .map(|(_, known)| known),
    };
    let remedy = match meant {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("use one of {}", OPERATIONS.map(|op| format!("`{op}`")).join(", ")),
    };
    Problem::new(if op.is_empty() { "is empty".to_owned() } else { format!("`{op}` is no operation") }, remedy)
}

fn check_effect(patch: &Patch, field: &str, findings: &mut Findings<'_>) {
    match patch {
        Patch::Move { from, path } if from.segments == path.segments => {
            findings.warning(field, "moves a value onto itself", "remove the operation");
        }
        Patch::Move { from, path } if path.segments.starts_with(&from.segments) => {
            let message = format!("moves `{}` into itself", from.text);
            findings.error(field, message, "move it elsewhere, or `copy` it");
        }
        Patch::Remove { path } if path.segments.is_empty() => {
            findings.warning(field, "removes the whole document, which leaves `null`", "name what to remove");
        }
        Patch::Remove { path } | Patch::Replace { path, .. } | Patch::Test { path, .. } if is_end(path) => {
            findings.warning(
                field,
                "`-` is the place behind the last element, where nothing is",
                "give the index of an element",
            );
        }
        _ => {}
    }
}

fn is_end(path: &Pointer) -> bool {
    path.segments.last().is_some_and(|name| name.index == Index::End)
}

/// Warns about an operation at a place that `retain` has dropped.
fn check_reachable(
    patch: &Patch,
    field: &str,
    retained: &[Vec<Segment>],
    earlier: &[Patch],
    findings: &mut Findings<'_>,
) {
    let exists = |at: &[Name]| {
        retained.iter().any(|kept| may_keep(kept, at))
            || earlier.iter().filter_map(written_place).any(|place| overlaps(place, at))
    };
    let remedy = "add the path to `retain`, or remove the operation";
    let parent = |path: &Pointer| path.segments.split_last().map(|(_, parent)| parent.to_vec()).unwrap_or_default();
    match patch {
        Patch::Remove { path } if !exists(&path.segments) => {
            let message = format!("does nothing: `retain` has dropped `{}` already", path.text);
            findings.warning(field, message, "remove the operation");
        }
        Patch::Replace { path, .. } | Patch::Test { path, .. } if !exists(&path.segments) => {
            findings.warning(field, format!("can never apply: `retain` drops `{}`", path.text), remedy);
        }
        Patch::Move { from, .. } | Patch::Copy { from, .. } if !exists(&from.segments) => {
            findings.warning(field, format!("can never apply: `retain` drops `{}`", from.text), remedy);
        }
        Patch::Add { path, .. } | Patch::Move { path, .. } | Patch::Copy { path, .. } if !exists(&parent(path)) => {
            findings.warning(field, format!("can never apply: `retain` drops what `{}` is in", path.text), remedy);
        }
        _ => {}
    }
}

/// Returns the place at which an operation leaves a value.
fn written_place(patch: &Patch) -> Option<&[Name]> {
    match patch {
        Patch::Add { path, .. } | Patch::Move { path, .. } | Patch::Copy { path, .. } | Patch::Replace { path, .. } => {
            Some(&path.segments)
        }
        Patch::Remove { .. } | Patch::Test { .. } => None,
    }
}

/// Returns whether one place contains the other, or equals it.
pub(super) fn overlaps(a: &[Name], b: &[Name]) -> bool {
    a.starts_with(b) || b.starts_with(a)
}
