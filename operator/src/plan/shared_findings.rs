//! Findings about objects that several expositions use. A large service is planned a few expositions at a time, so the
//! verdict on a filter set or a manifest joins the findings of all those parts. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tamis_crds::ObjectName;

use crate::object::ObjectKey;
use crate::verdict::Finding;

/// Findings by object.
pub(crate) type Findings = BTreeMap<ObjectKey, Vec<Finding>>;

/// The findings of each part.
#[derive(Debug, Default)]
pub(crate) struct SharedFindings {
    parts: HashMap<u64, Part>,
    /// The part that each exposition was planned with, if that part has findings.
    part_of: HashMap<ObjectName, u64>,
    about: HashMap<ObjectKey, BTreeSet<u64>>,
    next: u64,
}

/// Expositions that were planned together, and the findings.
#[derive(Debug)]
struct Part {
    expositions: BTreeSet<ObjectName>,
    findings: Findings,
}

/// The consequences of a new part.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Revised {
    /// Objects whose verdict may change.
    pub(crate) objects: BTreeSet<ObjectKey>,
    /// Expositions to plan again: findings that they share may no longer hold.
    pub(crate) again: BTreeSet<ObjectName>,
}

impl SharedFindings {
    /// Records the findings of planning these expositions. Earlier findings of a part with one of them no longer hold;
    /// the other expositions of that part are planned again, since a finding does not tell which exposition caused it.
    pub(crate) fn revise(&mut self, expositions: &BTreeSet<ObjectName>, findings: Findings) -> Revised {
        let mut revised = Revised::default();
        for exposition in expositions {
            let Some(id) = self.part_of.remove(exposition) else { continue };
            let Some(part) = self.parts.get_mut(&id) else { continue };
            part.expositions.remove(exposition);
            if part.expositions.is_empty() {
                self.end(id, &mut revised.objects);
            } else {
                revised.again.extend(part.expositions.iter().cloned());
            }
        }
        revised.again.retain(|exposition| !expositions.contains(exposition));
        if !findings.is_empty() && !expositions.is_empty() {
            self.next += 1;
            let id = self.next;
            self.part_of.extend(expositions.iter().map(|exposition| (exposition.clone(), id)));
            for object in findings.keys() {
                self.about.entry(object.clone()).or_default().insert(id);
                revised.objects.insert(object.clone());
            }
            self.parts.insert(id, Part { expositions: expositions.clone(), findings });
        }
        revised
    }

    fn end(&mut self, id: u64, touched: &mut BTreeSet<ObjectKey>) {
        let Some(part) = self.parts.remove(&id) else { return };
        for object in part.findings.into_keys() {
            if let Some(ids) = self.about.get_mut(&object) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.about.remove(&object);
                }
            }
            touched.insert(object);
        }
    }

    /// Returns the findings of all parts about an object.
    pub(crate) fn of(&self, object: &ObjectKey) -> BTreeSet<&Finding> {
        let parts = self.about.get(object).into_iter().flatten().filter_map(|id| self.parts.get(id));
        parts.filter_map(|part| part.findings.get(object)).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use tamis_config::Reason;

    use super::*;
    use crate::object::Kind;

    fn names(text: &str) -> BTreeSet<ObjectName> {
        text.chars().map(|c| ObjectName { namespace: "n".to_owned(), name: c.to_string() }).collect()
    }

    fn set() -> ObjectKey {
        let name = ObjectName { namespace: "n".to_owned(), name: "set".to_owned() };
        ObjectKey { kind: Kind::ToolsFilters, name }
    }

    fn saying(messages: &[&str]) -> Findings {
        let finding = |message: &&str| Finding::warning(Reason::InvalidFilter, *message);
        if messages.is_empty() { Findings::new() } else { [(set(), messages.iter().map(finding).collect())].into() }
    }

    #[test]
    fn findings_are_those_of_the_last_plan_of_each_exposition() {
        let mut said = SharedFindings::default();
        // Expositions planned together and their findings; expositions to plan again, and all findings then.
        let table: [(&str, &[&str], &str, &[&str]); 9] = [
            ("abc", &[], "", &[]),
            ("abc", &["one"], "", &["one"]),
            ("de", &["one", "two"], "", &["one", "two"]),
            ("f", &[], "", &["one", "two"]),
            ("d", &[], "e", &["one", "two"]),
            ("e", &["one"], "", &["one"]),
            ("a", &["three"], "bc", &["one", "three"]),
            ("bc", &[], "", &["one", "three"]),
            ("ae", &[], "", &[]),
        ];
        for (planned, says, again, expected) in table {
            let revised = said.revise(&names(planned), saying(says));
            assert_eq!(revised.again, names(again), "{planned}");
            let found: Vec<_> = said.of(&set()).into_iter().map(|finding| finding.message.clone()).collect();
            assert_eq!(found, expected, "{planned}");
        }
        let SharedFindings { parts, part_of, about, next: _ } = said;
        assert!(parts.is_empty() && part_of.is_empty() && about.is_empty(), "nothing remains");
    }

    #[test]
    fn objects_change_with_their_findings() {
        let mut said = SharedFindings::default();
        assert_eq!(said.revise(&names("a"), saying(&["one"])).objects, [set()].into());
        assert_eq!(said.revise(&names("b"), saying(&[])).objects, BTreeSet::new());
        assert_eq!(said.revise(&names("a"), saying(&[])).objects, [set()].into());
    }
}
