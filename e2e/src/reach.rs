//! What decides whether a Service answers: its endpoints, DNS, kube-proxy and the pods, each observed separately.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;
use serde::{Deserialize, Serialize};
use tamis_tests::cluster::eventually;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::node::Node;
use crate::product::PUBLIC;

const SOON: Duration = Duration::from_secs(25);
/// How long a connection may go unanswered.
const PATIENCE: Duration = Duration::from_millis(500);
/// The time between two observations.
const EVERY: Duration = Duration::from_millis(250);
/// The Service of the gateways, and the port of their pods.
const SERVICE: &str = "tamis-public";
const SERVING: u16 = 8080;

/// When a pod first got an answer from DNS, and then from the Service, as seconds since 1970.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Reached {
    resolved: f64,
    connected: Option<f64>,
}

/// Runs in a pod: looks up a host until DNS knows it, connects to a port until a connection is accepted, and prints
/// when each succeeded.
///
/// # Errors
/// One of them does not succeed in time.
pub(crate) async fn print(host: &str, port: Option<u16>) -> Result<()> {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.as_secs_f64());
    let whole = format!("{}.cluster.local.", host.trim_end_matches('.'));
    let address = eventually(&format!("DNS knows {whole}"), SOON, async || {
        Ok(lookup_host((whole.as_str(), port.unwrap_or_default())).await?.next())
    })
    .await?;
    let resolved = now()?;
    let connected = match port {
        None => None,
        Some(_) => {
            eventually(&format!("{address} accepts a connection"), SOON, async || {
                Ok(Some(timeout(PATIENCE, TcpStream::connect(address)).await??))
            })
            .await?;
            Some(now()?)
        }
    };
    println!("{}", serde_json::to_string(&Reached { resolved, connected })?);
    Ok(())
}

/// Waits until DNS knows a Service, asked from a pod of the team.
///
/// # Errors
/// It does not in time.
pub(crate) async fn resolved(node: &Node, host: &str) -> Result<()> {
    node.kubectl(&format!("-n team-a exec deployment/tracker -- /tamis-e2e reach {host}")).await.map(drop)
}

/// When each part of the way to a team's Service first worked, after an instant.
pub(crate) struct FirstTimes {
    endpoints: Duration,
    dns: Duration,
    connection: Duration,
}

impl FirstTimes {
    /// Observes the Service `tracker` of the team from a pod, starting now.
    ///
    /// # Errors
    /// One part does not work in time.
    pub(crate) async fn observe(node: &Node) -> Result<Self> {
        let (began, clock) = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64());
        let endpoints = eventually("the Service has an endpoint", SOON, async || {
            Ok((!ready(node, "team-a", "tracker").await?.is_empty()).then(|| began.elapsed()))
        });
        let exec = node.kubectl("-n team-a exec deployment/tracker -- /tamis-e2e reach tracker.team-a.svc --port 80");
        let (endpoints, printed) = tokio::join!(endpoints, exec);
        let Reached { resolved, connected } = serde_json::from_str(&printed?).context("the pod prints no times")?;
        let since = |time: f64| Duration::from_secs_f64((time - clock).max(0.0));
        Ok(Self { endpoints: endpoints?, dns: since(resolved), connection: since(connected.context("no connection")?) })
    }
}

impl std::fmt::Display for FirstTimes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { endpoints, dns, connection } = self;
        write!(
            f,
            "an endpoint after {endpoints:.1?}; in a pod, DNS after {dns:.1?}, a connection after {connection:.1?}"
        )
    }
}

/// The addresses of a Service's ready endpoints.
async fn ready(node: &Node, namespace: &str, service: &str) -> Result<Vec<IpAddr>> {
    let slices: Api<EndpointSlice> = Api::namespaced(node.client(), namespace);
    let selected = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    let endpoints = slices.list(&selected).await?.items.into_iter().flat_map(|slice| slice.endpoints);
    let ready =
        endpoints.filter(|endpoint| endpoint.conditions.as_ref().is_some_and(|found| found.ready == Some(true)));
    Ok(ready.flat_map(|endpoint| endpoint.addresses).filter_map(|address| address.parse().ok()).collect())
}

/// Waits until Kubernetes' controller of EndpointSlices follows changes of Services.
///
/// After an outage of the API server, the controller's watches begin again at different times, up to a minute apart.
/// Until it sees its own writes, it refuses to sync ("EndpointSlice informer cache is out of date") and backs off for up
/// to 1000 s for each Service. A Service whose pods are replaced meanwhile can be without endpoints for minutes, however
/// ready its pods are.
///
/// # Errors
/// The controller does not follow in time.
pub(crate) async fn slices_follow(node: &Node) -> Result<()> {
    const LABEL: &str = "tamis-e2e";
    const LIMIT: Duration = Duration::from_secs(180);
    let slices: Api<EndpointSlice> = Api::namespaced(node.client(), "team-a");
    let selected = ListParams::default().labels("kubernetes.io/service-name=tracker");
    let (began, mut followed) = (Instant::now(), 0);
    // The second change is followed only if the controller has seen its own write of the first.
    for change in 0_u32.. {
        node.kubectl(&format!("-n team-a label --overwrite service/tracker {LABEL}={change}")).await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let found = slices.list(&selected).await?.items;
        let labels = found.iter().filter_map(|slice| slice.metadata.labels.as_ref()?.get(LABEL));
        followed = if labels.eq([&change.to_string()]) { followed + 1 } else { 0 };
        if followed == 2 {
            break;
        }
        ensure!(began.elapsed() < LIMIT, "the EndpointSlice of team-a/tracker is not updated within {LIMIT:?}");
    }
    node.kubectl(&format!("-n team-a label service/tracker {LABEL}-")).await.map(drop)
}

/// What became of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connection {
    Accepted,
    Refused,
    Unanswered,
    Failed,
}

impl Connection {
    async fn attempt(address: SocketAddr) -> Self {
        match timeout(PATIENCE, TcpStream::connect(address)).await {
            Ok(Ok(_)) => Self::Accepted,
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => Self::Refused,
            Ok(Err(_)) => Self::Failed,
            Err(_) => Self::Unanswered,
        }
    }
}

/// The gateways' Service at one moment.
#[derive(Debug, Clone, PartialEq)]
struct State {
    /// Connections to the ready endpoints; `None` if the API server does not answer.
    endpoints: Option<Vec<Connection>>,
    service: Connection,
    /// When kube-proxy last wrote its rules, in seconds since 1970.
    synced: Option<f64>,
}

impl State {
    async fn observe(node: &Node, service: SocketAddr) -> Self {
        let endpoints = match ready(node, PUBLIC, SERVICE).await {
            Err(_) => None,
            Ok(addresses) => {
                let mut connections = Vec::new();
                for address in addresses {
                    connections.push(Connection::attempt((address, SERVING).into()).await);
                }
                Some(connections)
            }
        };
        Self { endpoints, service: Connection::attempt(service).await, synced: node.proxy_synced().await }
    }
}

/// The changes of the gateways' Service while something ran.
#[derive(Default)]
struct Changes(Vec<(SystemTime, State)>);

impl Changes {
    async fn observe(&mut self, node: &Node, service: SocketAddr) -> Infallible {
        loop {
            let state = State::observe(node, service).await;
            if self.0.last().is_none_or(|(_, last)| *last != state) {
                self.0.push((SystemTime::now(), state));
            }
            tokio::time::sleep(EVERY).await;
        }
    }
}

impl std::fmt::Display for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let began = self.0.first().map(|(time, _)| seconds(*time)).unwrap_or_default();
        for (index, (time, State { endpoints, service, synced })) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{:.1} s: ", seconds(*time) - began)?;
            match endpoints {
                Some(endpoints) => write!(f, "endpoints {endpoints:?}")?,
                None => write!(f, "endpoints unknown")?,
            }
            write!(f, ", Service {service:?}")?;
            if let Some(synced) = synced {
                write!(f, ", rules written at {:.1} s", synced - began)?;
            }
        }
        Ok(())
    }
}

/// Waits for something that depends on the gateways' Service, and describes how the Service changed meanwhile.
///
/// # Errors
/// Those of the work, with the description.
pub(crate) async fn observed<T>(node: &Node, work: impl Future<Output = Result<T>>) -> Result<(T, String)> {
    let url = node.service(PUBLIC, SERVICE).await?;
    let service = url.trim_start_matches("http://").parse().with_context(|| url.clone())?;
    let mut changes = Changes::default();
    let done = tokio::select! {
        done = work => done,
        never = changes.observe(node, service) => match never {},
    };
    match done {
        Ok(value) => Ok((value, changes.to_string())),
        Err(error) => Err(error.context(format!("the gateways' Service: {changes}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::{Changes, Connection, State};

    #[test]
    fn changes_are_described_in_their_order() {
        let state = |endpoints, service| State { endpoints, service, synced: Some(99.5) };
        let changes = Changes(vec![
            (UNIX_EPOCH + Duration::from_secs(100), state(Some(Vec::new()), Connection::Refused)),
            (
                UNIX_EPOCH + Duration::from_millis(101_500),
                State { synced: None, ..state(None, Connection::Unanswered) },
            ),
            (UNIX_EPOCH + Duration::from_secs(103), state(Some(vec![Connection::Accepted]), Connection::Accepted)),
        ]);
        assert_eq!(
            changes.to_string(),
            "0.0 s: endpoints [], Service Refused, rules written at -0.5 s; \
             1.5 s: endpoints unknown, Service Unanswered; \
             3.0 s: endpoints [Accepted], Service Accepted, rules written at -0.5 s"
        );
    }
}
