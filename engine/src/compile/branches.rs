//! The two forms of a filter: one object, or a list of branches.

use super::check::Findings;
use super::{CompileOptions, Enforcement, fields, pointers};
use crate::FilterSpec;
use crate::program::{Branch, Guard};

/// A filter that applies to every output.
pub(super) fn single(spec: &FilterSpec, options: &CompileOptions, findings: &mut Findings) -> Option<Branch> {
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

/// A list of which the first branch whose test holds applies.
pub(super) fn list(specs: &[FilterSpec], options: &CompileOptions, findings: &mut Findings) -> Vec<Option<Branch>> {
    if specs.is_empty() {
        findings.error("", "the list of branches is empty", "write at least one branch, or one filter without a list");
    }
    if !fields::bounded("", specs.len(), findings) {
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

fn guard(specs: &[FilterSpec], index: usize, findings: &mut Findings) -> Option<Guard> {
    let spec = specs.get(index)?;
    match (&spec.test, spec.otherwise) {
        (Some(_), true) => {
            findings.error("otherwise", "stands beside `test`", "keep one of them");
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
            let path = findings.take("test.path", pointers::strict(&test.path))?;
            let earlier = specs[..index].iter().position(|other| {
                other.test.as_ref().is_some_and(|t| t.path == test.path && t.value.node().equals(&test.value.node()))
            });
            if let Some(earlier) = earlier {
                findings.warning(
                    "test",
                    format!("is that of branch {earlier}, so this branch never applies"),
                    "remove it, or change one of the tests",
                );
            }
            fields::ordinary_star("test.path", &path, findings);
            Some(Guard::Test(path, test.value.clone()))
        }
    }
}
