//! Who may reach a group's gateways, and whom they may reach. Pure.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::child::{Child, ChildKind, selector};
use super::pod::{ADMIN, SERVING};
use super::{GroupInput, Settings};

/// The label of a namespace whose pods may reach the admin port of gateways: `allow`, for Prometheus.
pub const METRICS_LABEL: &str = "tamis.dev/metrics";
/// Addresses of one machine's neighbourhood, where clouds keep their metadata services.
const LINK_LOCAL: [(&str, &str); 2] = [("0.0.0.0/0", "169.254.0.0/16"), ("::/0", "fe80::/10")];

/// The NetworkPolicy of a group.
///
/// *In*: the serving port from anywhere, since who may call is a matter of `access`; the admin port only from the
/// operator's pods and from namespaces that are labelled for it. An operator that is not a pod has no address that
/// could be named here: then the admin port is open, and `/config` and `/acks` want the group's token as ever. The
/// kubelet's probes come from the node, which no policy holds off.
///
/// *Out*: DNS wherever it is, since node-local resolvers have link-local addresses; and every address but link-local
/// ones. A policy knows addresses, not names, and the API server and the upstreams may be anywhere: which of them a
/// gateway calls is decided by the gateway itself, on the address that it connects to (`spec.egress`). What remains
/// here is what must hold even where that fails: no metadata service, unless the group allows its address.
pub(super) fn network_policy(group: &GroupInput, settings: &Settings) -> Child {
    let mut ingress = vec![json!({"ports": [port("TCP", SERVING)]})];
    let mut admin = json!({"ports": [port("TCP", ADMIN)]});
    if let Some(namespace) = &settings.operator_namespace {
        admin["from"] = json!([
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "podSelector": {"matchLabels": settings.operator_labels},
            },
            {"namespaceSelector": {"matchLabels": {METRICS_LABEL: "allow"}}},
        ]);
    }
    ingress.push(admin);
    let anywhere = LINK_LOCAL.map(|(all, except)| json!({"ipBlock": {"cidr": all, "except": [except]}}));
    let mut egress = vec![json!({"ports": [port("UDP", 53), port("TCP", 53)]}), json!({"to": anywhere})];
    let allowed: Vec<Value> = allowed_link_local(group).map(|cidr| json!({"ipBlock": {"cidr": cidr}})).collect();
    if !allowed.is_empty() {
        egress.push(json!({"to": allowed}));
    }
    Child::new(
        ChildKind::NetworkPolicy,
        group,
        json!({"spec": {
            "podSelector": {"matchLabels": selector(group)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        }}),
    )
}

fn port(protocol: &str, port: u16) -> Value {
    json!({"protocol": protocol, "port": port})
}

/// Link-local addresses and networks that the group allows, as CIDR.
fn allowed_link_local(group: &GroupInput) -> impl Iterator<Item = String> {
    let allow = group.spec.egress.iter().flat_map(|egress| &egress.allow);
    allow.filter_map(|text| {
        let (address, bits) = text.split_once('/').map_or((text.as_str(), None), |(a, bits)| (a, Some(bits)));
        let address: IpAddr = address.parse().ok()?;
        let (is_local, most) = match address {
            IpAddr::V4(v4) => (v4.is_link_local(), 32),
            IpAddr::V6(v6) => (v6.is_unicast_link_local(), 128),
        };
        let bits: u8 = bits.map_or(Some(most), |bits| bits.parse().ok()).filter(|bits| *bits <= most)?;
        is_local.then(|| format!("{address}/{bits}"))
    })
}
