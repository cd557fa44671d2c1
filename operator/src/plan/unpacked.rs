//! Caches large objects in full while they are needed repeatedly.

use std::collections::VecDeque;

use tamis_crds::resources::Resources;

use crate::cluster_state::Object;
use crate::object::ObjectKey;

/// The most bytes of JSON whose objects are held at once; at least one object is held. Their parsed form takes six
/// times that.
const BYTES: usize = 4 << 20;

/// One object of one generation.
#[derive(Debug)]
struct Held {
    key: ObjectKey,
    uid: String,
    generation: i64,
    bytes: usize,
    resources: Resources,
}

/// The objects that were read last.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    held: VecDeque<Held>,
    bytes: usize,
}

impl Unpacked {
    /// Returns all resources of an object.
    pub(super) fn whole(&mut self, object: &Object) -> Resources {
        if !object.is_packed() {
            return object.resources.clone();
        }
        let is_it =
            |held: &Held| held.key == object.key && held.uid == object.uid && held.generation == object.generation;
        let found = self.held.iter().position(is_it).and_then(|at| self.held.remove(at));
        let held = found.unwrap_or_else(|| {
            self.bytes += object.bytes;
            let (key, uid) = (object.key.clone(), object.uid.clone());
            Held { key, uid, generation: object.generation, bytes: object.bytes, resources: object.whole() }
        });
        let resources = held.resources.clone();
        self.held.push_front(held);
        while self.bytes > BYTES && self.held.len() > 1 {
            self.bytes -= self.held.pop_back().map_or(0, |last| last.bytes);
        }
        resources
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::cluster_state::fixture::{Fixture, name};
    use crate::object::Kind;

    #[test]
    fn a_large_object_is_held_packed_and_reads_as_it_was() {
        let mut f = Fixture::good();
        let filter =
            json!({"retain": (0..2_000).map(|n| format!("/member/number/{n}/of/many/more")).collect::<Vec<_>>()});
        let spec = json!({"service": {"name": "s", "version": "1"}, "filters": {"get": filter}});
        let mut unpacked = Unpacked::default();
        f.put(
            Kind::ToolsFilters,
            "small",
            json!({"service": {"name": "s", "version": "1"}, "filters": {"get": {"retain": ["/a"]}}}),
        );
        for number in 0..100 {
            f.put(Kind::ToolsFilters, &format!("large{number}"), spec.clone());
        }
        let get = |text: &str| Arc::clone(f.cluster.get(Kind::ToolsFilters, &name(text)).expect("is known"));
        assert!(!get("small").is_packed() && get("small").resources.filters[0].spec.filters.len() == 1);
        for number in (0..100).chain(90..100) {
            let object = get(&format!("large{number}"));
            assert!(object.is_packed() && object.bytes > 64 << 10);
            assert!(object.resources.filters[0].spec.filters.is_empty());
            assert_eq!(object.services(), [Fixture::key()]);
            let whole = unpacked.whole(&object);
            let read: Vec<_> =
                whole.filters.iter().map(|set| serde_json::to_value(&set.spec.filters).expect("is JSON")).collect();
            assert_eq!(read, [spec["filters"].clone()]);
            let sum: usize = unpacked.held.iter().map(|held| held.bytes).sum();
            assert!(sum == unpacked.bytes && sum <= BYTES, "{sum}");
        }
        // A second read returns the same one.
        let object = get("large99");
        assert!(Arc::ptr_eq(&unpacked.whole(&object).filters[0], &unpacked.whole(&object).filters[0]));
    }
}
