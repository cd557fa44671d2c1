//! Publishes what a followed server lists: its tools become a service, and the expositions are loaded again over that service.

use std::sync::{Arc, PoisonError};

use tamis_config::{ExpositionDocument, NamePatterns, ServiceDocument};

use super::Watch;
use crate::gateway::Gateway;
use crate::service::Service;
use crate::upstream::Listed;

/// A list, and the service with its tools.
#[derive(Debug, Clone)]
pub(crate) struct Derived {
    pub(crate) listed: Arc<Listed>,
    pub(crate) service: Arc<Service>,
}

/// Returns the document of an exposition with the tools that it publishes of those that are listed, each with its filter.
pub(crate) fn effective(
    document: &ExpositionDocument,
    follow: &NamePatterns,
    listed: &ServiceDocument,
) -> ExpositionDocument {
    let published = listed.tools.keys().filter(|tool| follow.selects(tool));
    let tools = published.map(|tool| (tool.clone(), document.tools.get(tool).cloned().unwrap_or_default())).collect();
    ExpositionDocument { tools, ..document.clone() }
}

impl Watch {
    /// Returns the service of the tools that a followed server listed last; none before that.
    pub(crate) fn derived(&self) -> Option<Derived> {
        self.derived.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Wakes the task of a followed server after a call may have read another list.
    pub(crate) fn note_listed(&self) {
        self.listed.notify_one();
    }
}

/// Takes over what a followed server lists now, if that differs from what its expositions publish.
pub(super) async fn follow(gateway: &Arc<Gateway>, watch: &Arc<Watch>) {
    let upstream = &watch.service.upstream;
    if !upstream.follows() {
        return;
    }
    let Some(listed) = upstream.listed(watch.credentials(gateway.options.credentials.as_ref())) else { return };
    if watch.derived().is_some_and(|derived| derived.listed == listed) {
        return;
    }
    let (gateway, watch) = (Arc::clone(gateway), Arc::clone(watch));
    // Schemas and filters are compiled.
    let done = tokio::task::spawn_blocking(move || {
        let service = match watch.service.derived(&listed) {
            Ok(service) => Arc::new(service),
            Err(error) => {
                let name = &watch.service.document.name;
                tracing::error!(service = %name, "the server's tools cannot be published; the previous ones stay: {error}");
                return;
            }
        };
        *watch.derived.lock().unwrap_or_else(PoisonError::into_inner) = Some(Derived { listed, service });
        gateway.publish_listed(&watch);
    });
    if let Err(error) = done.await {
        tracing::error!(%error, "the tools of a followed server were not taken over");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_exposition_publishes_what_is_listed_and_selected() {
        let tool = |name: &str| json!({"inputSchema": {"type": "object"}, "call": {"mcp": {"tool": name}}});
        let listed = |names: &[&str]| -> ServiceDocument {
            let tools: serde_json::Map<_, _> = names.iter().map(|name| ((*name).to_owned(), tool(name))).collect();
            let document = json!({
                "formatVersion": 4, "name": "s", "version": "1", "tools": tools,
                "source": {"mcp": {"url": "https://a.example/mcp", "follow": true}},
            });
            serde_json::from_str(&document.to_string()).unwrap()
        };
        let filter = json!({"filter": {"maxItems": 3}, "filterSet": "n/set"});
        for (follow, names, expected) in [
            (json!({}), &[][..], &[][..]),
            (json!({}), &["get-a", "other"], &["get-a", "other"]),
            (json!({"include": ["get-*"]}), &["other", "get-b", "get-a"], &["get-b", "get-a"]),
            (json!({"include": ["get-*"], "exclude": ["get-b"]}), &["other", "get-b", "get-a"], &["get-a"]),
            (json!({"exclude": ["*"]}), &["get-a"], &[]),
        ] {
            let document: ExpositionDocument = serde_json::from_value(json!({
                "formatVersion": 4, "id": {"namespace": "n", "name": "e"}, "service": "d", "enforcement": "Advisory",
                "tools": {"get-a": filter, "absent": filter}, "follow": follow,
            }))
            .unwrap();
            let selection = document.follow.clone().unwrap();
            let effective = effective(&document, &selection, &listed(names));
            assert_eq!(effective.tools.keys().collect::<Vec<_>>(), expected, "{follow} {names:?}");
            for (name, tool) in &effective.tools {
                assert_eq!(tool.filter.is_some(), name == "get-a", "{name}");
            }
        }
    }
}
