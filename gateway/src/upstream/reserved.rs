//! Addresses that are learned while a gateway runs, and that no upstream may have: the gateway's own, those of its
//! group's Service, and those of the API server.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, PoisonError, RwLock};

use tamis_config::addresses::embedded_v4;
use url::Host;

/// What has been learned. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reserved(Arc<RwLock<Learned>>);

#[derive(Debug, Default)]
struct Learned {
    /// Of the interfaces of this machine or pod.
    own: HashSet<IpAddr>,
    /// Of the Service in front of the gateway.
    service: HashSet<IpAddr>,
    /// Of the API server's processes, behind its ClusterIP.
    api_server: HashSet<IpAddr>,
    /// That the gateway listens on.
    ports: HashSet<u16>,
}

impl PartialEq for Reserved {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Reserved {}

impl Reserved {
    /// With the addresses of this machine's interfaces.
    pub(super) fn of_this_machine() -> Self {
        let reserved = Self::default();
        reserved.learn(|learned| learned.own = interfaces());
        reserved
    }

    /// The gateway listens on a port.
    pub(crate) fn add_port(&self, port: u16) {
        self.learn(|learned| {
            learned.ports.insert(port);
        });
    }

    /// The Service of the gateway's group has these addresses now.
    pub(crate) fn set_service(&self, addresses: impl IntoIterator<Item = IpAddr>) {
        let addresses = addresses.into_iter().collect();
        self.learn(|learned| learned.service = addresses);
    }

    /// A process of the API server has this address. Each answers for itself alone, so they add up.
    pub(crate) fn add_api_server(&self, address: IpAddr) {
        self.learn(|learned| {
            learned.api_server.insert(address);
        });
    }

    fn learn(&self, change: impl FnOnce(&mut Learned)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether an address is the gateway's own, or of the Service in front of it.
    pub(super) fn is_gateway(&self, address: IpAddr) -> bool {
        let learned = self.0.read().unwrap_or_else(PoisonError::into_inner);
        learned.own.contains(&address) || learned.service.contains(&address)
    }

    /// Whether an address is one of this machine's or pod's interfaces; none where these are not known.
    pub(crate) fn is_own(&self, address: IpAddr) -> Option<bool> {
        let learned = self.0.read().unwrap_or_else(PoisonError::into_inner);
        (!learned.own.is_empty()).then(|| learned.own.contains(&address))
    }

    pub(super) fn is_api_server(&self, address: IpAddr) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).api_server.contains(&address)
    }

    /// Whether a host, as it is written, and a port lead to where the gateway listens. Under a name that first has to be
    /// looked up, the request says itself where it comes from (`Tamis-Hops`).
    pub(super) fn is_listener(&self, host: &Host<&str>, port: u16) -> bool {
        let learned = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let own = |address: IpAddr| {
            let address = embedded_v4(address).map_or(address, IpAddr::V4);
            address.is_loopback() || address.is_unspecified() || learned.own.contains(&address)
        };
        let here = match host {
            Host::Ipv4(ip) => own((*ip).into()),
            Host::Ipv6(ip) => own((*ip).into()),
            Host::Domain(name) => {
                let name = name.trim_end_matches('.');
                name == "localhost" || name.ends_with(".localhost")
            }
        };
        here && learned.ports.contains(&port)
    }
}

/// The addresses of this machine's interfaces, where Linux lists them; loopback is among them.
fn interfaces() -> HashSet<IpAddr> {
    let text = |path| std::fs::read_to_string(path).unwrap_or_default();
    let v4 = local_v4(&text("/proc/net/fib_trie")).into_iter().map(IpAddr::V4);
    v4.chain(local_v6(&text("/proc/net/if_inet6")).into_iter().map(IpAddr::V6)).collect()
}

/// Local addresses in the kernel's routing table: a leaf, and below it what it is.
fn local_v4(fib_trie: &str) -> Vec<Ipv4Addr> {
    let mut leaf: Option<Ipv4Addr> = None;
    let mut found = Vec::new();
    for line in fib_trie.lines() {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(leaf);
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Addresses in the kernel's list of IPv6 interfaces: 32 digits, then what does not matter here.
fn local_v6(if_inet6: &str) -> Vec<Ipv6Addr> {
    let address = |line: &str| u128::from_str_radix(line.split_whitespace().next()?, 16).ok().map(Ipv6Addr::from);
    if_inet6.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_interfaces() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.244.1.7\n        /32 host LOCAL\n     |-- 10.244.1.0\n        \
                    /24 link UNICAST\n     +-- 127.0.0.0/8 2 0 2\n        |-- 127.0.0.1\n           /32 host LOCAL\n\
                    Local:\n     |-- 10.244.1.7\n        /32 host LOCAL\n     |-- 10.244.1.255\n        /32 link BROADCAST\n";
        let expected = [Ipv4Addr::new(10, 244, 1, 7), Ipv4Addr::LOCALHOST];
        assert_eq!(local_v4(trie), expected);
        let six = "00000000000000000000000000000001 01 80 10 80       lo\nfd000000000000000000000000000007 02 40 00 80     eth0\nx\n";
        assert_eq!(local_v6(six), [Ipv6Addr::LOCALHOST, "fd00::7".parse::<Ipv6Addr>().unwrap()]);
        assert!(local_v4("").is_empty() && local_v6("").is_empty());
    }

    #[test]
    fn a_listener_is_known_by_each_of_its_addresses() {
        let reserved = Reserved::default();
        reserved.learn(|learned| {
            learned.own.insert("10.244.1.7".parse().unwrap());
        });
        reserved.add_port(9_090);
        for (url, expected) in [
            ("http://127.0.0.1:9090/metrics", true),
            ("http://127.8.8.8:9090/", true),
            ("http://[::1]:9090/", true),
            ("http://[::ffff:127.0.0.1]:9090/", true),
            ("http://[::ffff:10.244.1.7]:9090/", true),
            ("http://0.0.0.0:9090/", true),
            ("http://[::]:9090/", true),
            ("http://localhost:9090/", true),
            ("http://a.localhost.:9090/", true),
            ("http://10.244.1.7:9090/", true),
            ("http://10.244.1.8:9090/", false),
            ("http://127.0.0.1:9091/", false),
            ("http://127.0.0.1/", false),
        ] {
            let parsed: url::Url = url.parse().unwrap();
            let port = parsed.port_or_known_default().unwrap();
            assert_eq!(reserved.is_listener(&parsed.host().unwrap(), port), expected, "{url}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_has_a_loopback_address() {
        assert!(Reserved::of_this_machine().is_gateway(Ipv4Addr::LOCALHOST.into()));
    }
}
