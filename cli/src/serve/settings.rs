//! Settings of the process from the GatewayGroup document.

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tamis_crds::resources::{AuditSink, GatewayGroupSpec, MetricsDetail};
use tamis_gateway::upstream::{Destination, EgressPolicy};
use tamis_gateway::{GatewayLimits, Tls, available_cores};

/// The port of the serving listener, if neither the command line nor a GatewayGroup sets one.
pub(crate) const PORT: u16 = 8080;
/// The port of the admin listener.
pub(crate) const ADMIN_PORT: u16 = 9090;

/// Returns the egress policy: the public network and loopback, with the group's additions and exclusions.
pub(crate) fn egress(group: Option<&GatewayGroupSpec>) -> anyhow::Result<EgressPolicy> {
    let mut policy = EgressPolicy::standalone();
    if let Some(egress) = group.and_then(|group| group.egress.as_ref()) {
        let all = |field: &str, list: &[String]| {
            let each =
                |text: &String| Destination::from_str(text).with_context(|| format!("GatewayGroup: egress.{field}"));
            list.iter().map(each).collect::<anyhow::Result<Vec<_>>>()
        };
        policy.allow = all("allow", &egress.allow)?;
        policy.deny = all("deny", &egress.deny)?;
    }
    Ok(policy)
}

/// Returns the address to listen on. The command line takes precedence.
pub(crate) fn listen(argument: Option<&str>, group: Option<&GatewayGroupSpec>) -> String {
    let port = group.and_then(|group| group.listener.as_ref()).and_then(|listener| listener.port);
    match argument {
        Some(address) => address.to_owned(),
        None => format!("127.0.0.1:{}", port.unwrap_or(PORT)),
    }
}

/// Returns the host names under which clients reach the gateway, in addition to its address.
pub(crate) fn hostnames(group: Option<&GatewayGroupSpec>) -> Vec<String> {
    let Some(listener) = group.and_then(|group| group.listener.as_ref()) else { return Vec::new() };
    let external = listener.external_url.as_deref().and_then(|url| url.parse::<http::Uri>().ok());
    listener.hostname.iter().cloned().chain(external.and_then(|url| url.host().map(str::to_owned))).collect()
}

/// Loads the certificate of the serving port: from the command line, or from the Secret that the group names.
pub(crate) fn tls(
    named: Option<(PathBuf, PathBuf)>,
    group: Option<&GatewayGroupSpec>,
    secrets: Option<&Path>,
) -> anyhow::Result<Option<Arc<Tls>>> {
    let secret = group.and_then(|group| group.listener.as_ref()?.tls.as_ref()).map(|tls| &tls.secret_ref.name);
    let files = match (named, secret) {
        (Some(named), _) => named,
        (None, None) => return Ok(None),
        (None, Some(name)) => {
            let hint =
                "GatewayGroup: spec.listener.tls requires a Secret; set --secrets, or use --tls-cert and --tls-key";
            let folder = secrets.context(hint)?.join(name);
            (folder.join("tls.crt"), folder.join("tls.key"))
        }
    };
    crate::gateway::tls(Some(files))
}

/// Returns the prefix of the URLs of expositions.
pub(crate) fn base_url(group: Option<&GatewayGroupSpec>, address: SocketAddr, tls: bool) -> String {
    let scheme = if tls { "https" } else { "http" };
    let external =
        group.and_then(|group| group.listener.as_ref()).and_then(|listener| listener.external_url.as_deref());
    external.map_or_else(|| format!("{scheme}://{address}"), |url| url.trim_end_matches('/').to_owned())
}

/// Returns whether metrics have one series per tool.
pub(crate) fn tool_series(group: Option<&GatewayGroupSpec>) -> bool {
    group.and_then(|group| group.metrics).unwrap_or_default().detail == MetricsDetail::Tool
}

/// Returns the limits of all expositions together. The memory of the command line takes precedence.
pub(crate) fn limits(group: Option<&GatewayGroupSpec>, memory: Option<u64>) -> GatewayLimits {
    let none = GatewayGroupSpec::default();
    let group = group.unwrap_or(&none);
    GatewayLimits {
        memory: crate::gateway::budget(memory.or(group.memory_bytes())),
        max_response_bytes: group.response_ceiling(),
        max_timeout: Duration::from_millis(group.timeout_ceiling_ms()),
        ..GatewayLimits::default()
    }
}

/// Returns the number of workers. The number of the command line takes precedence.
pub(crate) fn workers(group: Option<&GatewayGroupSpec>, given: Option<NonZero<usize>>) -> NonZero<usize> {
    given.or_else(|| group?.worker_threads()).unwrap_or_else(available_cores)
}

/// Returns whether the group writes audit records to files.
pub(crate) fn audits_to_files(group: Option<&GatewayGroupSpec>) -> bool {
    group.and_then(|group| group.audit).is_some_and(|audit| audit.sink == AuditSink::File)
}

/// Returns the fields of the group that `tamis serve` ignores, with the reasons.
pub(crate) fn without_effect(group: Option<&GatewayGroupSpec>) -> Vec<(&'static str, &'static str)> {
    let Some(group) = group else { return Vec::new() };
    let mut fields = Vec::new();
    if group.replicas.is_some_and(|replicas| replicas != 1) {
        fields.push(("replicas", "`tamis serve` is one process"));
    }
    if group.autoscaling.is_some() {
        fields.push(("autoscaling", "`tamis serve` is one process"));
    }
    if group.listener.as_ref().is_some_and(|listener| listener.service.is_some()) {
        fields.push(("listener.service", "`tamis serve` has no Service"));
    }
    if group.disruption_budget.is_some() {
        fields.push(("disruptionBudget", "`tamis serve` is one process"));
    }
    if group.pod.is_some() {
        fields.push(("pod", "`tamis serve` does not run in a pod of the operator"));
    }
    if group.controller_name.is_some() {
        fields.push(("controllerName", "`tamis serve` has no operator"));
    }
    fields
}

/// Returns the changed fields that are read only at the start of the process. The floors under `require` are not among them:
/// they apply as soon as they are saved.
pub(crate) fn needs_restart(started: Option<&GatewayGroupSpec>, now: Option<&GatewayGroupSpec>) -> Vec<&'static str> {
    let none = GatewayGroupSpec::default();
    let (started, now) = (started.unwrap_or(&none), now.unwrap_or(&none));
    [
        ("listener", started.listener != now.listener),
        ("egress", started.egress != now.egress),
        ("memory", started.memory != now.memory),
        ("workers", started.workers != now.workers),
        ("maxResponseBytes", started.max_response_bytes != now.max_response_bytes),
        ("maxTimeout", started.max_timeout != now.max_timeout),
        ("metrics", started.metrics != now.metrics),
        ("audit", started.audit != now.audit),
        ("tracing", started.tracing != now.tracing),
    ]
    .into_iter()
    .filter_map(|(field, differs)| differs.then_some(field))
    .collect()
}

#[cfg(test)]
mod tests {
    use tamis_crds::resources::{
        AutoscalingSpec, EgressSpec, FloorsSpec, GroupAuditSpec, ListenerSpec, Memory, MetricsSpec, PodSpec, Quantity,
    };

    use super::*;

    fn group(listener: ListenerSpec) -> GatewayGroupSpec {
        GatewayGroupSpec { listener: Some(listener), ..GatewayGroupSpec::default() }
    }

    #[test]
    fn the_command_line_comes_first() {
        let group = group(ListenerSpec { port: Some(7000), ..ListenerSpec::default() });
        assert_eq!(listen(None, None), "127.0.0.1:8080");
        assert_eq!(listen(None, Some(&group)), "127.0.0.1:7000");
        assert_eq!(listen(Some("0.0.0.0:1"), Some(&group)), "0.0.0.0:1");
    }

    #[test]
    fn a_proxy_in_front_gives_its_name() {
        let group = group(ListenerSpec {
            hostname: Some("mcp.example.com".into()),
            external_url: Some("https://out.example.com:444/tamis/".into()),
            ..ListenerSpec::default()
        });
        let address = "127.0.0.1:8080".parse().expect("an address");
        assert_eq!(hostnames(Some(&group)), ["mcp.example.com", "out.example.com"]);
        assert_eq!(base_url(Some(&group), address, false), "https://out.example.com:444/tamis");
        assert_eq!(base_url(None, address, false), "http://127.0.0.1:8080");
        assert_eq!(base_url(None, address, true), "https://127.0.0.1:8080");
    }

    #[test]
    fn egress_is_the_group_s() {
        let egress_of = |allow: &[&str], deny: &[&str]| {
            let list = |l: &[&str]| l.iter().map(|s| (*s).to_owned()).collect();
            let spec = EgressSpec { allow: list(allow), deny: list(deny) };
            egress(Some(&GatewayGroupSpec { egress: Some(spec), ..GatewayGroupSpec::default() }))
        };
        let policy = egress_of(&["10.1.0.0/16"], &["127.0.0.1"]).expect("is valid");
        assert!(policy.permits("a", "10.1.2.3".parse().expect("an address")));
        assert!(!policy.permits("a", "10.2.2.3".parse().expect("an address")));
        assert!(!policy.permits("localhost", "127.0.0.1".parse().expect("an address")));
        let error = egress_of(&["not a host"], &[]).expect_err("is not valid").to_string();
        assert!(error.contains("egress.allow"), "{error}");
    }

    #[test]
    fn limits_are_the_group_s_and_memory_the_command_line_s_first() {
        let group = GatewayGroupSpec {
            memory: Some(Memory(Quantity("300Mi".to_owned()))),
            max_response_bytes: Some(Quantity("1Mi".to_owned())),
            max_timeout: Some("10s".to_owned()),
            ..GatewayGroupSpec::default()
        };
        let of = |group, memory| {
            let GatewayLimits { memory, max_response_bytes, max_timeout, .. } = limits(group, memory);
            (memory, max_response_bytes, max_timeout.as_secs())
        };
        assert_eq!(of(Some(&group), None), (300 << 20, 1 << 20, 10));
        assert_eq!(of(Some(&group), Some(1 << 30)), (1 << 30, 1 << 20, 10));
        let (detected, response, time) = of(None, None);
        assert!(detected > 0);
        assert_eq!((response, time), (64 << 20, 300));
    }

    #[test]
    fn workers_are_the_command_line_s_then_the_group_s_then_the_cores() {
        let group = |workers| GatewayGroupSpec { workers, ..GatewayGroupSpec::default() };
        let of = |workers, given| super::workers(Some(&group(workers)), NonZero::new(given)).get();
        assert_eq!((of(Some(3), 5), of(Some(3), 0), of(Some(1024), 0)), (5, 3, 1024));
        assert_eq!((of(Some(1025), 0), of(Some(0), 0)), (available_cores().get(), available_cores().get()));
        assert_eq!(super::workers(None, None), available_cores());
    }

    #[test]
    fn what_one_process_cannot_do_is_said() {
        let group = GatewayGroupSpec {
            replicas: Some(3),
            controller_name: Some("a".into()),
            autoscaling: Some(AutoscalingSpec {
                min_replicas: 1,
                max_replicas: 2,
                target_cpu_utilization: None,
                target_memory_utilization: None,
                behavior: None,
            }),
            pod: Some(PodSpec::default()),
            metrics: Some(MetricsSpec { detail: MetricsDetail::Exposition }),
            audit: Some(GroupAuditSpec { sink: AuditSink::File }),
            ..GatewayGroupSpec::default()
        };
        let fields: Vec<_> = without_effect(Some(&group)).into_iter().map(|(field, _)| field).collect();
        assert_eq!(fields, ["replicas", "autoscaling", "pod", "controllerName"]);
        assert!(without_effect(None).is_empty() && tool_series(None) && !audits_to_files(None));
        assert!(!tool_series(Some(&group)) && audits_to_files(Some(&group)));
        assert_eq!(needs_restart(None, Some(&group)), ["metrics", "audit"]);
        let floors =
            GatewayGroupSpec { require: Some(FloorsSpec { enforced: true, ..FloorsSpec::default() }), ..group.clone() };
        assert!(needs_restart(Some(&group), Some(&floors)).is_empty(), "floors hold at once");
    }
}
