//! The node's network namespace, and a veth pair that connects it to this machine.

use std::net::Ipv4Addr;

use anyhow::Result;

use super::{NAME, run};

/// The address of this machine for the node and its pods. The API server and the callers use it.
pub(crate) const HOST: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 254);
/// The address of the node.
pub(crate) const NODE: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 1);
/// The addresses of pods.
pub(crate) const PODS: &str = "10.244.0.0/24";
/// The addresses of Services, as the API server assigns them.
const SERVICES: &str = "10.96.0.0/16";

pub(super) fn create() -> Result<()> {
    let (host, node) = (HOST.to_string(), NODE.to_string());
    let (host_net, node_net) = (format!("{host}/24"), format!("{node}/24"));
    let commands: [&[&str]; 12] = [
        &["netns", "add", NAME],
        &["link", "add", NAME, "type", "veth", "peer", "name", "eth0", "netns", NAME],
        &["address", "add", &host_net, "dev", NAME],
        &["link", "set", NAME, "up"],
        &["-netns", NAME, "link", "set", "lo", "up"],
        &["-netns", NAME, "address", "add", &node_net, "dev", "eth0"],
        &["-netns", NAME, "link", "set", "eth0", "up"],
        &["-netns", NAME, "route", "add", "default", "via", &host],
        // Like the routes of a router in front of a cluster: callers on this machine reach Services.
        &["route", "add", PODS, "via", &node],
        &["route", "add", SERVICES, "via", &node],
        &["-netns", NAME, "link", "show", "eth0"],
        &["link", "show", NAME],
    ];
    for args in commands {
        run("ip", args)?;
    }
    let forward = "echo 1 > /proc/sys/net/ipv4/ip_forward";
    run("nsenter", &[&format!("--net=/run/netns/{NAME}"), "--", "sh", "-c", forward]).map(drop)
}
