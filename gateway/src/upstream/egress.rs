//! Which addresses may be connected to.
//!
//! The policy is asked about the address itself: once for a literal address in a URL, and for a name by the
//! [`Resolver`] that every connection goes through, so that neither DNS nor a redirect leads anywhere else.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// What calls may reach beside the public network.
///
/// Never reached, unless `allow` says so: link-local and metadata addresses, private networks, everything that is not
/// globally routed. `deny` wins over `allow`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressPolicy {
    /// Whether `127.0.0.0/8` and `::1` may be reached.
    pub allow_loopback: bool,
    /// Networks and hosts that may be reached although they are not public.
    pub allow: Vec<Destination>,
    /// Networks and hosts that may never be reached.
    pub deny: Vec<Destination>,
}

impl EgressPolicy {
    /// The default of `tamis serve`: the public network and loopback.
    #[must_use]
    pub fn standalone() -> Self {
        Self { allow_loopback: true, allow: Vec::new(), deny: Vec::new() }
    }

    /// Whether a connection to `address`, under the name `host`, is permitted.
    #[must_use]
    pub fn permits(&self, host: &str, address: IpAddr) -> bool {
        let written = address;
        let address = embedded_v4(address).map_or(address, IpAddr::V4);
        if self.deny.iter().any(|d| d.covers(host, address) || d.covers(host, written)) {
            return false;
        }
        is_public(address)
            || (self.allow_loopback && address.is_loopback())
            || self.allow.iter().any(|d| d.covers(host, address))
    }

    /// Checks what a URL says by itself: a literal address, or a name that is denied as such. Names are checked again
    /// by the [`Resolver`], with their addresses.
    pub(super) fn check(&self, url: &Url) -> Result<(), Denied> {
        let permitted = match url.host() {
            Some(Host::Ipv4(ip)) => self.permits(&ip.to_string(), IpAddr::V4(ip)),
            Some(Host::Ipv6(ip)) => self.permits(&ip.to_string(), IpAddr::V6(ip)),
            Some(Host::Domain(name)) => !self.deny.iter().any(|d| d.covers_host(name)),
            None => false,
        };
        if permitted { Ok(()) } else { Err(Denied) }
    }

    /// The same policy for what an upstream, rather than a manifest, names.
    pub(super) fn without_loopback(&self) -> Self {
        Self { allow_loopback: false, ..self.clone() }
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
    fn covers(&self, host: &str, address: IpAddr) -> bool {
        match self {
            Self::Net(net) => net.contains(&address),
            Self::Host(_) | Self::Below(_) => self.covers_host(host),
        }
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

/// Resolves names by the system and passes on only what the policy permits.
#[derive(Debug)]
pub(super) struct Resolver(pub(super) Arc<EgressPolicy>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = Arc::clone(&self.0);
        Box::pin(async move {
            let addresses = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let permitted = policy.select(name.as_str(), addresses)?;
            Ok(Box::new(permitted.into_iter()) as Addrs)
        })
    }
}

/// The IPv4 address inside an IPv6 one that leads to it (mapped, NAT64, 6to4), so that no notation goes around a rule.
fn embedded_v4(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = address else { return None };
    let [a, b, c, d, e, f, g, h] = v6.segments();
    let pair = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0xffff) | (0x64, 0xff9b, 0, 0, 0, 0) => pair(g, h),
        (0x2002, ..) => pair(b, c),
        _ => None,
    }
}

/// Whether an address is globally routed unicast (IANA special-purpose registries).
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || a == 0
        || a >= 224
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b)))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    // 2000::/3 is all that is allocated; of it, 2001::/23 (protocol assignments, Teredo) and 2001:db8::/32 are not.
    (0x2000..0x4000).contains(&a) && !(a == 0x2001 && (b < 0x200 || b == 0xdb8)) && a != 0x3fff
}

#[cfg(test)]
#[path = "tests/egress.rs"]
mod tests;
