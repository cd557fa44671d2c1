//! Checks the destination that a base URL states by itself. The gateway resolves names and checks the address that it connects
//! to.

use std::net::IpAddr;

use ipnet::IpNet;
use tamis_config::addresses::{embedded_v4, is_metadata, is_public};
use tamis_config::{Reason, ServiceDocument, names};
use url::{Host, Url};

use super::expose::Stop;
use crate::Resource;
use crate::origin::FieldPath;
use crate::resources::{EgressSpec, GatewayGroupSpec};

/// Stops an exposition whose upstream the gateways of its group may not call.
pub(super) fn check(
    service: &ServiceDocument,
    namespace: &str,
    group: &Resource<GatewayGroupSpec>,
    path: &FieldPath,
) -> Result<(), Stop> {
    let nothing = EgressSpec::default();
    let own = format!("{}.{}", names::group_object(&group.name.name), group.name.namespace);
    let egress = group.spec.egress.as_ref().unwrap_or(&nothing);
    let refused = |url: &str| permitted(url, namespace, &own, egress).err();
    let Some(what) = service.destinations().into_iter().find_map(refused) else { return Ok(()) };
    let remedy = format!("call another host, or allow this host in `egress` of GatewayGroup {}", group.name);
    Err(Stop::new(Reason::EgressDenied, path.clone(), what, remedy))
}

/// Returns the reason if a base URL may not be called from a namespace. `own`: name and namespace of the Service in front of
/// the gateways.
fn permitted(base_url: &str, namespace: &str, own: &str, egress: &EgressSpec) -> Result<(), String> {
    let Ok(url) = Url::parse(base_url) else { return Ok(()) };
    let Some(host) = url.host() else { return Ok(()) };
    let covered = |list: &[String]| list.iter().any(|entry| covers(entry, &host));
    if covered(&egress.deny) {
        return Err(format!("the gateway group denies {host}"));
    }
    let refused = match &host {
        Host::Ipv4(ip) => reserved(IpAddr::V4(*ip)),
        Host::Ipv6(ip) => reserved(IpAddr::V6(*ip)),
        Host::Domain(name) => name_of(name.trim_end_matches('.'), namespace, own),
    };
    match refused {
        Some(what) if !covered(&egress.allow) => Err(format!("{host} is {what}")),
        _ => Ok(()),
    }
}

/// Returns why a name may not be called by default.
fn name_of(name: &str, namespace: &str, own: &str) -> Option<&'static str> {
    if name == "localhost" || name.ends_with(".localhost") {
        return Some("the gateway's own machine");
    }
    if matches!(name, "metadata" | "metadata.google.internal") {
        return Some("a metadata service");
    }
    let service = name.strip_suffix(".cluster.local").unwrap_or(name).strip_suffix(".svc")?;
    match service.rsplit_once('.').unwrap_or(("", service)) {
        ("kubernetes", "default") => Some("the API server"),
        _ if service == own => Some("the Service of the group's own gateways"),
        (_, of) if of == namespace => None,
        _ => Some("in another namespace"),
    }
}

/// Returns why an address may not be called by default (IANA special-purpose registries).
fn reserved(address: IpAddr) -> Option<&'static str> {
    let written = address;
    let address = embedded_v4(address).map_or(address, IpAddr::V4);
    let loopback = address.is_loopback() || written.is_loopback();
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    // The metadata service of Azure has a public address.
    if is_metadata(address) {
        return Some("a metadata service");
    }
    match (loopback, link_local, is_public(address)) {
        (true, ..) => Some("the gateway's own machine"),
        (_, true, _) => Some("a link-local address"),
        (.., false) => Some("not a public address"),
        _ => None,
    }
}

/// Returns whether an entry of `egress` covers a host: `10.1.0.0/16`, `192.0.2.7`, `api.internal`, `*.example.com`.
fn covers(entry: &str, host: &Host<&str>) -> bool {
    let address = match host {
        Host::Ipv4(ip) => Some(IpAddr::V4(*ip)),
        Host::Ipv6(ip) => Some(IpAddr::V6(*ip)),
        Host::Domain(_) => None,
    };
    if let Some(address) = address {
        let net = entry.parse::<IpNet>().ok().or_else(|| entry.parse::<IpAddr>().ok().map(IpNet::from));
        let inner = embedded_v4(address).map(IpAddr::V4);
        return net.is_some_and(|net| net.contains(&address) || inner.is_some_and(|inner| net.contains(&inner)));
    }
    let Host::Domain(name) = host else { return false };
    let (name, entry) = (canonical(name), canonical(entry));
    match entry.strip_prefix("*.") {
        Some(domain) => name.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        None => name == entry,
    }
}

/// Normalizes the two names of a Service, with and without the cluster's domain.
fn canonical(name: &str) -> String {
    let mut name = name.trim_end_matches('.').to_ascii_lowercase();
    if name.ends_with(".svc.cluster.local") {
        name.truncate(name.len() - ".cluster.local".len());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_url_says_by_itself() {
        let none: [&str; 0] = [];
        let table: [(&str, &[&str], &[&str], bool); 41] = [
            ("https://api.example.com", &none, &none, true),
            ("https://8.8.8.8", &none, &none, true),
            ("https://[2606:4700::1111]", &none, &none, true),
            ("https://localhost", &none, &none, false),
            ("https://a.localhost:1", &none, &none, false),
            ("https://127.0.0.1", &none, &none, false),
            ("https://0x7f.1", &none, &none, false),
            ("https://[::1]", &none, &none, false),
            ("https://[::ffff:127.0.0.1]", &none, &none, false),
            ("https://169.254.169.254", &none, &none, false),
            ("https://[fe80::1]", &none, &none, false),
            ("https://[64:ff9b::a9fe:a9fe]", &none, &none, false),
            ("https://metadata.google.internal", &none, &none, false),
            ("https://10.0.0.1", &none, &none, false),
            ("https://100.64.0.1", &none, &none, false),
            ("https://[fd00::1]", &none, &none, false),
            ("http://api.team-a.svc", &none, &none, true),
            ("http://api.team-a.svc.cluster.local:80", &none, &none, true),
            ("http://api.team-a.svc.", &none, &none, true),
            ("http://pod-0.api.team-a.svc", &none, &none, true),
            ("http://api.team-b.svc", &none, &none, false),
            ("http://api.team-b.svc.cluster.local", &none, &none, false),
            ("http://svc.cluster.local", &none, &none, true),
            ("http://team-b.svc", &none, &none, false),
            ("http://tamis-public.team-a.svc", &none, &none, false),
            ("http://tamis-public.team-a.svc.cluster.local.", &none, &none, false),
            ("http://tamis-other.team-a.svc", &none, &none, true),
            ("https://kubernetes.default.svc", &none, &none, false),
            ("https://10.0.0.1", &["10.0.0.0/8"], &none, true),
            ("https://10.0.0.1", &["10.0.0.1"], &none, true),
            ("https://10.0.0.1", &["10.0.0.2"], &none, false),
            ("https://10.0.0.1", &["10.0.0.0/8"], &["10.0.0.1"], false),
            ("http://api.team-b.svc", &["*.team-b.svc"], &none, true),
            ("http://api.team-b.svc", &["api.team-b.svc"], &none, true),
            ("http://api.team-b.svc", &["api.team-b.svc.cluster.local"], &none, true),
            ("http://api.team-b.svc.cluster.local", &["*.team-b.svc"], &none, true),
            ("http://api.team-a.svc", &none, &["api.team-a.svc.cluster.local"], false),
            ("http://168.63.129.16", &none, &none, false),
            ("https://api.example.com", &none, &["*.example.com"], false),
            ("https://API.example.com.", &none, &["api.example.com"], false),
            ("https://example.com", &none, &["*.example.com"], true),
        ];
        for (url, allow, deny, expected) in table {
            let list = |list: &[&str]| list.iter().map(|entry| (*entry).to_owned()).collect();
            let egress = EgressSpec { allow: list(allow), deny: list(deny) };
            assert_eq!(
                permitted(url, "team-a", "tamis-public.team-a", &egress).is_ok(),
                expected,
                "{url} {allow:?} {deny:?}"
            );
        }
        assert!(permitted("https://kubernetes.default.svc", "default", "tamis-a.b", &EgressSpec::default()).is_err());
    }
}
