//! Builds the NetworkPolicy of a group. Pure.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::child::{Child, ChildKind, selector};
use super::pod::{ADMIN, SERVING};
use super::{GroupInput, Settings};

/// The label of a namespace whose pods may reach the admin port of gateways, with the value `allow`. For Prometheus.
pub const METRICS_LABEL: &str = "tamis.dev/metrics";
/// All addresses and the link-local ones among them, where clouds have their metadata services.
const LINK_LOCAL: [(&str, &str); 2] = [("0.0.0.0/0", "169.254.0.0/16"), ("::/0", "fe80::/10")];

/// Returns the NetworkPolicy of a group.
///
/// *Ingress*: the serving port from anywhere, since `access` decides who may call; the admin port only from the
/// operator's pods and from namespaces with the label. An operator that is not a pod has no address that the policy
/// could name: then the admin port is open, and `/config` and `/acks` still require the group's token. The kubelet's
/// probes come from the node, which no policy blocks.
///
/// *Egress*: DNS at any address, since node-local resolvers have link-local addresses; and every address except
/// link-local ones. A policy knows addresses, not names, and the API server and the upstreams may be anywhere: the
/// gateway itself decides which of them it calls, by the address that it connects to (`spec.egress`). The policy
/// enforces what must hold even if that check fails: no metadata service, unless the group allows its address.
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

/// Returns the link-local addresses and networks that the group allows, as CIDR.
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
