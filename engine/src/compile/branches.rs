//! The two forms of a filter: one object, or a list of branches.

use super::check::Findings;
use super::{CompileOptions, Enforcement, fields, pointers};
use crate::program::{Branch, Guard};
use crate::{FilterSpec, TestSpec};

/// Compiles a filter that applies to every output.
pub(super) fn single(spec: &FilterSpec, options: &CompileOptions, findings: &mut Findings<'_>) -> Option<Branch> {
    if spec.test.is_some() {
        findings.error("test", "belongs to the list form", "make the filter a list of branches, or remove `test`");
    }
    if spec.otherwise {
        findings.error(
            "otherwise",
            "belongs to the list form",
            "make the filter a list of branches, or remove `otherwise`",
        );
    }
    fields::branch(spec, Guard::Always, options, findings)
}

/// Compiles a list of branches; the first whose test holds applies.
pub(super) fn list(specs: &[FilterSpec], options: &CompileOptions, findings: &mut Findings<'_>) -> Vec<Option<Branch>> {
    if specs.is_empty() {
        findings.error("", "the list of branches is empty", "write at least one branch, or one filter without a list");
    }
    if !fields::within_entry_limit("", specs.len(), findings) {
        return Vec::new();
    }
    let branches: Vec<_> = specs
        .iter()
        .enumerate()
        .map(|(i, spec)| {
            findings.enter_branch(i);
            let guard = guard(specs, i, findings);
            fields::branch(spec, guard?, options, findings)
        })
        .collect();
    let last = specs.last().is_some_and(|spec| spec.otherwise);
    if options.enforcement == Enforcement::Enforced && !specs.is_empty() && !last {
        findings.branch_warning(
            specs.len() - 1,
            "outputs that no branch matches become errors",
            "add a last branch with `otherwise: true` if they should pass",
        );
    }
    branches
}

fn guard(specs: &[FilterSpec], index: usize, findings: &mut Findings<'_>) -> Option<Guard> {
    let spec = specs.get(index)?;
    match (&spec.test, spec.otherwise) {
        (Some(_), true) => {
            findings.error("otherwise", "cannot be combined with `test`", "keep one of them");
            None
        }
        (None, false) => {
            let last = index + 1 == specs.len();
            let remedy = if last { "add `test`, or `otherwise: true` on this last branch" } else { "add `test`" };
            findings.error("test", "is missing: a branch needs it", remedy);
            None
        }
        (None, true) => {
            if index + 1 < specs.len() {
                findings.error(
                    "otherwise",
                    "is not on the last branch: those after it never apply",
                    "move this branch to the end",
                );
            }
            Some(Guard::Otherwise)
        }
        (Some(test), false) => {
            let path = findings.record("test.path", pointers::strict(&test.path))?;
            let value = test.value.node();
            let earlier = specs[..index].iter().position(|other| {
                let same = other.test.as_ref().filter(|other| other.path == test.path && may_equal(other, test));
                same.is_some_and(|other| other.value.node().equals(&value))
            });
            if let Some(earlier) = earlier {
                findings.warning(
                    "test",
                    format!("is that of branch {earlier}, so this branch never applies"),
                    "remove it, or change one of the tests",
                );
            }
            fields::warn_star("test.path", &path, findings);
            Some(Guard::Test(Box::new(path), test.value.clone()))
        }
    }
}

/// Returns whether the values of two tests may be equal. Compares only the kinds of the values, since it runs for
/// every pair of branches.
fn may_equal(one: &TestSpec, other: &TestSpec) -> bool {
    let kind = |test: &TestSpec| match test.value.as_str().as_bytes().first() {
        Some(b'-' | b'0'..=b'9') => b'0',
        first => first.copied().unwrap_or(0),
    };
    kind(one) == kind(other)
}
