//! The requests to the API server, from its own metrics.

use std::collections::BTreeMap;

use anyhow::Result;
use http::Request;
use kube::Client;

use crate::report::Report;

/// Verbs that write.
const WRITES: [&str; 5] = ["POST", "PUT", "PATCH", "APPLY", "DELETE"];

/// Requests by `VERB resource/subresource`, and events sent to watches by `EVENT resource`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Requests(BTreeMap<String, f64>);

impl Requests {
    /// Reads the counts since the start of the API server.
    pub(crate) async fn read(client: &Client) -> Result<Self> {
        let text = client.request_text(Request::get("/metrics").body(Vec::new())?).await?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let mut counts: BTreeMap<String, f64> = BTreeMap::new();
        for line in text.lines() {
            let Some((labels, value)) = line.rsplit_once("} ") else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let name = if let Some(labels) = labels.strip_prefix("apiserver_request_total{") {
                let failed = if label(labels, "code").starts_with('2') { "" } else { " (refused)" };
                let (resource, sub) = (label(labels, "resource"), label(labels, "subresource"));
                let slash = if sub.is_empty() { "" } else { "/" };
                format!("{} {resource}{slash}{sub}{failed}", label(labels, "verb"))
            } else if let Some(labels) = labels.strip_prefix("apiserver_watch_events_total{") {
                format!("EVENT {}{}", label(labels, "resource"), label(labels, "kind"))
            } else {
                continue;
            };
            *counts.entry(name).or_default() += value;
        }
        Self(counts)
    }

    /// Returns the requests since `before`, without background traffic: Leases, and watches that end and restart.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let difference = |(name, count): (&String, &f64)| {
            let more = count - before.0.get(name).copied().unwrap_or_default();
            let passing = name.starts_with("WATCH ") || name.contains("lease") || name.ends_with(' ');
            (more > 0.0 && !passing).then(|| (name.clone(), more))
        };
        Self(self.0.iter().filter_map(difference).collect())
    }

    pub(crate) fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Returns the number of writes, including rejected ones.
    pub(crate) fn writes(&self) -> f64 {
        let is_write = |name: &str| WRITES.iter().any(|verb| name.split(' ').next() == Some(*verb));
        self.0.iter().filter(|(name, _)| is_write(name)).map(|(_, count)| count).sum()
    }

    /// Adds each count, divided by `each`.
    pub(crate) fn report(&self, report: &mut Report, what: &str, each: usize) {
        for (name, count) in &self.0 {
            report.figure(format!("{what}: {name}"), count / each as f64, "");
        }
    }
}

/// Returns the value of a label. None of the values contains a quote.
fn label<'l>(labels: &'l str, name: &str) -> &'l str {
    let found = labels.split(',').find_map(|label| label.strip_prefix(name)?.strip_prefix("=\""));
    found.and_then(|value| value.split('"').next()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
# HELP apiserver_request_total Counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="tamis.dev",resource="gatewayconfigs",scope="resource",subresource="",verb="POST",version="v1alpha1"} 3
apiserver_request_total{code="409",component="apiserver",dry_run="",group="tamis.dev",resource="gatewayconfigs",scope="resource",subresource="",verb="POST",version="v1alpha1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="tamis.dev",resource="expositions",scope="resource",subresource="status",verb="APPLY",version="v1alpha1"} 2
apiserver_request_total{code="200",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 9
apiserver_watch_events_total{group="tamis.dev",resource="expositions",version="v1alpha1"} 4
"#;

    #[test]
    fn requests_are_counted_by_verb_and_resource() {
        let requests = Requests::parse(TEXT).since(&Requests::default());
        assert_eq!(requests.get("POST gatewayconfigs"), 3.0);
        assert_eq!(requests.get("POST gatewayconfigs (refused)"), 1.0);
        assert_eq!(requests.get("APPLY expositions/status"), 2.0);
        assert_eq!(requests.get("EVENT expositions"), 4.0);
        assert_eq!(requests.writes(), 6.0);
        assert_eq!(requests.since(&requests), Requests::default());
    }
}
