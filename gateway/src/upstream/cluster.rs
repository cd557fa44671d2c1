//! Names and addresses of the cluster that a gateway runs in.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

/// The domain of nearly every cluster.
const DOMAIN: &str = "cluster.local";

/// What a gateway knows of its cluster's network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClusterNetwork {
    /// Where the API server is reached: its ClusterIP, and its endpoints as far as they are known.
    api_server: Vec<IpAddr>,
    /// What stands behind `.svc`, without dots around it.
    domain: String,
    /// That Services are looked up with.
    pub(super) nameservers: Vec<SocketAddr>,
    /// Whether Services may be reached by their names. Not so where a redirect leads.
    pub(super) services: bool,
}

impl ClusterNetwork {
    /// A cluster whose API server has these addresses, in the usual domain.
    pub(super) fn new(api_server: Vec<IpAddr>) -> Self {
        Self { api_server, domain: DOMAIN.to_owned(), nameservers: Vec::new(), services: true }
    }

    /// Takes the nameservers and the domain from the text of a pod's `resolv.conf`, as far as they are there.
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

    /// `name.namespace` of a Service's name: `name.namespace.svc`, with or without the cluster's domain and a dot. Names
    /// of pods behind a Service have more labels in front.
    pub(super) fn service<'a>(&self, host: &'a str) -> Option<&'a str> {
        let host = host.strip_suffix('.').unwrap_or(host);
        let host = strip_labels(host, &self.domain).unwrap_or(host);
        let service = strip_labels(host, "svc")?;
        let labels = service.split('.').filter(|label| !label.is_empty()).count();
        (labels > 1 && labels == service.split('.').count()).then_some(service)
    }

    /// The namespace of a Service's name.
    pub(super) fn namespace<'a>(&self, host: &'a str) -> Option<&'a str> {
        self.service(host)?.rsplit('.').next()
    }

    /// Whether the address may be reached because the name is a Service's.
    pub(super) fn serves(&self, host: &str, address: IpAddr) -> bool {
        let private = match address {
            // Some clusters take the addresses of carriers (RFC 6598) for their pods and Services.
            IpAddr::V4(v4) => v4.is_private() || (v4.octets()[0] == 100 && (64..128).contains(&v4.octets()[1])),
            IpAddr::V6(v6) => v6.is_unique_local(),
        };
        self.services && private && self.service(host).is_some()
    }

    /// Both spellings of a Service's name.
    pub(super) fn spellings(&self, host: &str) -> Option<[String; 2]> {
        let service = self.service(host)?;
        Some([format!("{service}.svc"), format!("{service}.svc.{}", self.domain)])
    }

    /// The name as it is to be looked up. Always a whole name: with the search list of a pod, `api.github.com` could
    /// also be the Service `github` of a namespace `com`, and `x.team.svc` one of a namespace `svc`.
    pub(super) fn whole<'a>(&self, host: &'a str) -> Cow<'a, str> {
        match self.service(host) {
            Some(service) => format!("{service}.svc.{}.", self.domain).into(),
            None if host.contains('.') && !host.ends_with('.') => format!("{host}.").into(),
            None => host.into(),
        }
    }
}

/// What stands before `.suffix`, in any case.
fn strip_labels<'a>(host: &'a str, suffix: &str) -> Option<&'a str> {
    let (front, back) = host.split_at_checked(host.len().checked_sub(suffix.len() + 1)?)?;
    let back = back.strip_prefix('.')?;
    back.eq_ignore_ascii_case(suffix).then_some(front)
}

/// The nameservers of resolv.conf(5).
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

/// The domain that the search list of a pod has behind `svc.`; of several lists the last counts (resolv.conf(5)).
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
