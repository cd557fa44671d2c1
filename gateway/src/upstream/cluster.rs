//! Names and addresses of the cluster that a gateway runs in.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

/// The domain of nearly every cluster.
const DOMAIN: &str = "cluster.local";

/// The network of the gateway's cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClusterNetwork {
    /// The addresses of the API server: its ClusterIP, and its known endpoints.
    api_server: Vec<IpAddr>,
    /// The cluster domain after `.svc`, without leading or trailing dots.
    domain: String,
    /// The nameservers for Services.
    pub(super) nameservers: Vec<SocketAddr>,
    /// Whether Services may be reached by their names. False for redirects.
    pub(super) services: bool,
}

impl ClusterNetwork {
    /// Creates a cluster whose API server has these addresses, with the default domain.
    pub(super) fn new(api_server: Vec<IpAddr>) -> Self {
        Self { api_server, domain: DOMAIN.to_owned(), nameservers: Vec::new(), services: true }
    }

    /// Reads the nameservers and the domain from the text of a pod's `resolv.conf`. A domain that is missing there
    /// stays as it was.
    pub(super) fn read_resolv_conf(&mut self, resolv_conf: &str) {
        self.nameservers = nameservers(resolv_conf);
        if let Some(domain) = domain(resolv_conf) {
            self.domain = domain;
        }
    }

    pub(super) fn without_services(self) -> Self {
        Self { services: false, ..self }
    }

    pub(super) fn is_api_server(&self, address: IpAddr) -> bool {
        self.api_server.contains(&address)
    }

    /// Returns `name.namespace` of a Service's name: `name.namespace.svc`, with or without the cluster's domain and a
    /// trailing dot. Names of pods behind a Service have more labels at the front.
    pub(super) fn service<'a>(&self, host: &'a str) -> Option<&'a str> {
        let host = host.strip_suffix('.').unwrap_or(host);
        let host = strip_labels(host, &self.domain).unwrap_or(host);
        let service = strip_labels(host, "svc")?;
        let labels = service.split('.').filter(|label| !label.is_empty()).count();
        (labels > 1 && labels == service.split('.').count()).then_some(service)
    }

    /// Returns the namespace in a Service's name.
    pub(super) fn namespace<'a>(&self, host: &'a str) -> Option<&'a str> {
        self.service(host)?.rsplit('.').next()
    }

    /// Returns whether the address may be reached because the name is that of a Service.
    pub(super) fn serves(&self, host: &str, address: IpAddr) -> bool {
        let private = match address {
            // Some clusters use the shared address space (RFC 6598) for their pods and Services.
            IpAddr::V4(v4) => v4.is_private() || (v4.octets()[0] == 100 && (64..128).contains(&v4.octets()[1])),
            IpAddr::V6(v6) => v6.is_unique_local(),
        };
        self.services && private && self.service(host).is_some()
    }

    /// Returns both spellings of a Service's name.
    pub(super) fn spellings(&self, host: &str) -> Option<[String; 2]> {
        let service = self.service(host)?;
        Some([format!("{service}.svc"), format!("{service}.svc.{}", self.domain)])
    }

    /// Returns the name to look up. It is always a fully qualified name. With the search list of a pod,
    /// `api.github.com` could also be the Service `github` of a namespace `com`, and `x.team.svc` one of a namespace
    /// `svc`.
    pub(super) fn whole<'a>(&self, host: &'a str) -> Cow<'a, str> {
        match self.service(host) {
            Some(service) => format!("{service}.svc.{}.", self.domain).into(),
            None if host.contains('.') && !host.ends_with('.') => format!("{host}.").into(),
            None => host.into(),
        }
    }
}

/// Returns the part before `.suffix`, ignoring case.
fn strip_labels<'a>(host: &'a str, suffix: &str) -> Option<&'a str> {
    let (front, back) = host.split_at_checked(host.len().checked_sub(suffix.len() + 1)?)?;
    let back = back.strip_prefix('.')?;
    back.eq_ignore_ascii_case(suffix).then_some(front)
}

/// Returns the nameservers in a `resolv.conf` (resolv.conf(5)).
fn nameservers(resolv_conf: &str) -> Vec<SocketAddr> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let each = resolv_conf.lines().map(words).filter_map(|words| match words.as_slice() {
        [keyword, address, ..] if keyword == "nameserver" => {
            address.parse::<IpAddr>().ok().map(|address| SocketAddr::from((address, 53)))
        }
        _ => None,
    });
    each.collect()
}

/// Returns the domain after `svc.` in the search list of a pod. The last of several lists counts (resolv.conf(5)).
fn domain(resolv_conf: &str) -> Option<String> {
    let mut lists = resolv_conf.lines().filter_map(|line| line.trim().strip_prefix("search"));
    let list = lists.rfind(|list| list.starts_with([' ', '\t']))?;
    let domain = list.split_whitespace().find_map(|entry| entry.strip_prefix("svc."))?;
    let domain = domain.trim_end_matches('.').to_ascii_lowercase();
    (!domain.is_empty()).then_some(domain)
}

#[cfg(test)]
#[path = "tests/cluster.rs"]
mod tests;
