//! The egress policy: which addresses calls may connect to.
//!
//! The policy checks the address itself. A literal address in a URL is checked directly. A name is checked by the
//! [`Resolver`] of every connection, so that neither DNS nor a redirect can lead to another address.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::Name;
use ipnet::IpNet;
use tamis_config::addresses::{embedded_v4, is_metadata, is_public};
use tower_service::Service;
use url::{Host, Url};

use super::cluster::ClusterNetwork;
use super::dns;
use super::origin::Origin;
use super::reserved::Reserved;

/// The destinations that calls may reach in addition to the public network.
///
/// Forbidden unless `allow` covers them: link-local and metadata addresses, a cluster's API server, the gateway's own
/// addresses, private networks, and every other address that is not globally routed. `deny` has precedence over
/// `allow`. The gateway's own listeners are always forbidden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressPolicy {
    /// Whether `127.0.0.0/8` and `::1` may be reached.
    pub allow_loopback: bool,
    /// Networks and hosts that may be reached although they are not public.
    pub allow: Vec<Destination>,
    /// Networks and hosts that may never be reached.
    pub deny: Vec<Destination>,
    /// The gateway's cluster, whose Services are reached by their names; none outside a cluster.
    pub(super) cluster: Option<ClusterNetwork>,
    /// Forbidden addresses that are learned while the gateway runs.
    pub(super) reserved: Reserved,
}

impl EgressPolicy {
    /// Returns the default of `tamis serve`: the public network and loopback.
    #[must_use]
    pub fn standalone() -> Self {
        let reserved = Reserved::of_this_machine();
        Self { allow_loopback: true, allow: Vec::new(), deny: Vec::new(), cluster: None, reserved }
    }

    /// Returns the default of a cluster's gateway: the public network, and Services by their `.svc` names. When an
    /// exposition is loaded, [`Upstream::reachable_from`](super::Upstream::reachable_from) decides whose Services it
    /// may reach. `api_server` has the API server's ClusterIP (`KUBERNETES_SERVICE_HOST`), and its endpoints if they
    /// are known.
    #[must_use]
    pub fn cluster(allow: Vec<Destination>, deny: Vec<Destination>, api_server: Vec<IpAddr>) -> Self {
        let reserved = Reserved::of_this_machine();
        Self { allow_loopback: false, allow, deny, cluster: Some(ClusterNetwork::new(api_server)), reserved }
    }

    /// Sets the cluster domain and the nameservers from the text of `/etc/resolv.conf` in the gateway's pod. Without a
    /// domain, it is `cluster.local`. Without nameservers, no Service can be reached.
    #[must_use]
    pub fn with_resolv_conf(mut self, resolv_conf: &str) -> Self {
        if let Some(cluster) = &mut self.cluster {
            cluster.read_resolv_conf(resolv_conf);
        }
        self
    }

    /// Returns whether a connection to `address`, under the name `host`, is permitted.
    #[must_use]
    pub fn permits(&self, host: &str, address: IpAddr) -> bool {
        let written = address;
        let address = embedded_v4(address).map_or(address, IpAddr::V4);
        let names = |d: &Destination| self.covers_name(d, host);
        if self.deny.iter().any(|d| d.covers(address) || d.covers(written) || names(d)) {
            return false;
        }
        if self.allow.iter().any(|d| d.covers(address) || names(d)) {
            return true;
        }
        if is_metadata(address) {
            return false;
        }
        let Some(cluster) = &self.cluster else {
            return is_public(address) || (self.allow_loopback && address.is_loopback());
        };
        let reserved = &self.reserved;
        if cluster.is_api_server(address) || reserved.is_api_server(address) || reserved.is_gateway(address) {
            return false;
        }
        // The name of a Service must not lead out of the cluster.
        match cluster.service(host) {
            Some(_) => cluster.serves(host, address),
            None => is_public(address) || (self.allow_loopback && address.is_loopback()),
        }
    }

    /// Returns the forbidden addresses that are learned while the gateway runs.
    pub(super) fn reserved(&self) -> &Reserved {
        &self.reserved
    }

    /// Returns whether a destination covers the host, in any spelling of a Service's name.
    fn covers_name(&self, destination: &Destination, host: &str) -> bool {
        let spellings = || self.cluster.as_ref().and_then(|cluster| cluster.spellings(host));
        destination.covers_host(host) || spellings().is_some_and(|all| all.iter().any(|s| destination.covers_host(s)))
    }

    /// Checks a host as it is written: a literal address, or a name that `deny` covers. The [`Resolver`] checks names
    /// again, with their addresses.
    pub(super) fn check(&self, origin: &Origin) -> Result<(), Denied> {
        let host = origin.host();
        if self.reserved.is_listener(&host, origin.port()) {
            return Err(Denied);
        }
        let permitted = match host {
            Host::Ipv4(ip) => self.permits(origin.host_str(), IpAddr::V4(ip)),
            Host::Ipv6(ip) => self.permits(origin.host_str(), IpAddr::V6(ip)),
            Host::Domain(name) => !self.deny.iter().any(|d| self.covers_name(d, name)),
        };
        if permitted { Ok(()) } else { Err(Denied) }
    }

    /// Checks by its text whether an exposition of `namespace` may have this base URL. Outside a cluster, only calls
    /// are checked.
    ///
    /// # Errors
    /// The reason, and the remedy.
    pub(super) fn check_base(&self, url: &Url, namespace: &str) -> Result<(), String> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        let host = url.host_str().unwrap_or_default();
        let refuse = |reason: &str| {
            Err(format!("the destination {host} {reason}; change the GatewayGroup's `egress` to allow it"))
        };
        if Origin::of(url).is_none_or(|origin| self.check(&origin).is_err()) {
            return refuse("is an address that the gateway may not reach");
        }
        match cluster.namespace(host) {
            Some(other) if other != namespace && !self.allow.iter().any(|d| self.covers_name(d, host)) => {
                refuse(&format!("is a Service of namespace {other}, but the exposition is in {namespace}"))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether [`restricted`](Self::restricted) differs: a manifest may name destinations that an upstream may
    /// not.
    pub(super) fn is_privileged(&self) -> bool {
        self.allow_loopback || self.cluster.as_ref().is_some_and(|cluster| cluster.services)
    }

    /// Returns the policy for destinations that an upstream names: without loopback, and without Services by name.
    pub(super) fn restricted(&self) -> Self {
        let cluster = self.cluster.clone().map(ClusterNetwork::without_services);
        Self { allow_loopback: false, cluster, ..self.clone() }
    }

    /// Returns the name that the system's resolver gets. A name that `allow` covers is not changed.
    fn lookup<'a>(&self, host: &'a str) -> Cow<'a, str> {
        match &self.cluster {
            Some(cluster) if !self.allow.iter().any(|d| d.covers_host(host)) => cluster.whole(host),
            _ => host.into(),
        }
    }

    /// Resolves a Service's name with the cluster's nameservers. Returns none for any other name, and for one that
    /// `allow` covers.
    pub(super) async fn service_addresses(&self, host: &str) -> Option<io::Result<Vec<IpAddr>>> {
        let cluster = self.cluster.as_ref()?;
        cluster.service(host)?;
        if self.allow.iter().any(|d| self.covers_name(d, host)) {
            return None;
        }
        Some(match dns::addresses(&cluster.nameservers, &cluster.whole(host)).await {
            Ok(Ok(addresses)) => Ok(addresses),
            // An ExternalName leads to another name, whatever the Service's namespace is.
            Ok(Err(dns::Alias)) => Err(io::Error::other(Denied)),
            Err(error) => Err(error),
        })
    }

    fn select(&self, host: &str, addresses: impl Iterator<Item = SocketAddr>) -> Result<Vec<SocketAddr>, Denied> {
        let mut refused = false;
        let permitted: Vec<_> = addresses
            .filter(|a| {
                let permitted = self.permits(host, a.ip());
                refused |= !permitted;
                permitted
            })
            .collect();
        if permitted.is_empty() && refused { Err(Denied) } else { Ok(permitted) }
    }
}

/// A network, or a host by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// `10.0.0.0/8`, or one address.
    Net(IpNet),
    /// `api.internal`, whatever it resolves to.
    Host(String),
    /// `*.corp.example`: every name below that.
    Below(String),
}

impl Destination {
    fn covers(&self, address: IpAddr) -> bool {
        matches!(self, Self::Net(net) if net.contains(&address))
    }

    fn covers_host(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        match self {
            Self::Net(_) => false,
            Self::Host(name) => host.eq_ignore_ascii_case(name),
            Self::Below(suffix) => {
                host.len() > suffix.len() + 1 && {
                    let (left, right) = host.as_bytes().split_at(host.len() - suffix.len());
                    left.ends_with(b".") && right.eq_ignore_ascii_case(suffix.as_bytes())
                }
            }
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(net) => net.fmt(f),
            Self::Host(name) => f.write_str(name),
            Self::Below(suffix) => write!(f, "*.{suffix}"),
        }
    }
}

/// Neither a network, an address nor a host name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a network (10.0.0.0/8), an address, a host name nor `*.` and a domain")]
pub struct InvalidDestination(String);

impl FromStr for Destination {
    type Err = InvalidDestination;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidDestination(text.to_owned());
        if let Ok(net) = text.parse::<IpNet>() {
            return Ok(Self::Net(net.trunc()));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Net(address.into()));
        }
        let (name, below) = text.strip_prefix("*.").map_or((text, false), |rest| (rest, true));
        // The URL parser's own idea of a name, so that both sides are spelled alike.
        match Host::parse(name).map_err(|_| invalid())? {
            Host::Domain(domain) if below => Ok(Self::Below(domain)),
            Host::Domain(domain) => Ok(Self::Host(domain)),
            Host::Ipv4(_) | Host::Ipv6(_) => Err(invalid()),
        }
    }
}

/// The policy forbids the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the egress policy forbids this address")]
pub(super) struct Denied;

/// A name could not be resolved, or the policy permits none of its addresses. The source is then [`Denied`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct ResolveError(#[source] Box<dyn Error + Send + Sync>);

impl From<io::Error> for ResolveError {
    fn from(error: io::Error) -> Self {
        Self(error.into())
    }
}

impl From<Denied> for ResolveError {
    fn from(denied: Denied) -> Self {
        Self(denied.into())
    }
}

/// Resolves names and returns only addresses that the policy permits.
#[derive(Debug, Clone)]
pub(super) struct Resolver(pub(super) Arc<EgressPolicy>);

impl Resolver {
    async fn resolve(self, name: Name) -> Result<std::vec::IntoIter<SocketAddr>, ResolveError> {
        let Self(policy) = self;
        let host = name.as_str();
        let addresses: Vec<SocketAddr> = match policy.service_addresses(host).await {
            Some(addresses) => addresses?.into_iter().map(|address| (address, 0).into()).collect(),
            None => tokio::net::lookup_host((&*policy.lookup(host), 0)).await?.collect(),
        };
        Ok(policy.select(host, addresses.into_iter())?.into_iter())
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = ResolveError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ResolveError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ResolveError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        Box::pin(self.clone().resolve(name))
    }
}

#[cfg(test)]
#[path = "tests/egress.rs"]
mod tests;
