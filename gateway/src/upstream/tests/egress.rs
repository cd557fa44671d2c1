use std::net::IpAddr;

use super::{Destination, EgressPolicy, InvalidDestination, Origin, Reserved, Resolver};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn policy(allow: &[&str], deny: &[&str]) -> EgressPolicy {
    let parse = |all: &[&str]| all.iter().map(|d| d.parse().unwrap()).collect();
    EgressPolicy {
        allow_loopback: false,
        allow: parse(allow),
        deny: parse(deny),
        cluster: None,
        reserved: Reserved::default(),
    }
}

#[test]
fn only_the_public_network_is_open() {
    let policy = policy(&[], &[]);
    for open in ["8.8.8.8", "140.82.121.6", "100.63.0.1", "172.15.0.1", "172.32.0.1", "2606:4700::1111", "2a00::1"] {
        assert!(policy.permits("host", ip(open)), "{open}");
    }
    for closed in [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.0.9",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.7",
        "203.0.113.7",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "3fff::1",
        "fc00::1",
        "fd12::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ] {
        assert!(!policy.permits("host", ip(closed)), "{closed}");
    }
}

#[test]
fn loopback_is_one_switch() {
    let policy = EgressPolicy::standalone();
    for address in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
        assert!(policy.permits("localhost", ip(address)), "{address}");
        assert!(!policy.restricted().permits("localhost", ip(address)), "{address}");
    }
    for address in ["10.0.0.1", "169.254.169.254", "fe80::1", "0.0.0.0"] {
        assert!(!policy.permits("localhost", ip(address)), "{address}");
    }
}

#[test]
fn allow_opens_and_deny_wins() {
    let policy = policy(
        &["10.0.0.0/8", "192.168.1.7", "api.internal", "*.corp.example"],
        &["10.9.0.0/16", "bad.example", "2002::/16"],
    );
    for (host, address, permitted) in [
        ("h", "10.1.1.1", true),
        ("h", "10.9.1.1", false),
        ("h", "::ffff:10.1.1.1", true),
        ("h", "::ffff:10.9.1.1", false),
        ("h", "2002:0808:0808::1", false),
        ("h", "192.168.1.7", true),
        ("h", "192.168.1.8", false),
        ("api.internal", "172.16.0.1", true),
        ("API.Internal.", "172.16.0.1", true),
        ("api.internal", "10.9.0.1", false),
        ("x.api.internal", "172.16.0.1", false),
        ("a.corp.example", "172.16.0.1", true),
        ("a.b.corp.example", "172.16.0.1", true),
        ("corp.example", "172.16.0.1", false),
        ("evilcorp.example", "172.16.0.1", false),
        ("bad.example", "8.8.8.8", false),
        ("BAD.example.", "8.8.8.8", false),
        ("good.example", "8.8.8.8", true),
    ] {
        assert_eq!(policy.permits(host, ip(address)), permitted, "{host} {address}");
    }
}

#[test]
fn urls_are_checked_for_what_they_say_themselves() {
    let policy = policy(&[], &["denied.example"]);
    for (url, permitted) in [
        ("https://api.example/", true),
        ("https://denied.example/", false),
        ("http://127.0.0.1/", false),
        ("http://2130706433/", false),
        ("http://0x7f.1/", false),
        ("http://[::1]/", false),
        ("http://[::ffff:169.254.169.254]/", false),
        ("http://169.254.169.254/latest/meta-data", false),
        ("http://8.8.8.8/", true),
    ] {
        assert_eq!(policy.check(&Origin::of(&url.parse().unwrap()).unwrap()).is_ok(), permitted, "{url}");
    }
}

#[test]
fn of_a_name_only_permitted_addresses_are_tried() {
    let addresses = || ["8.8.8.8:0", "10.0.0.1:0"].map(|a| a.parse().unwrap()).into_iter();
    let kept = policy(&[], &[]).select("two.example", addresses()).unwrap();
    assert_eq!(kept, ["8.8.8.8:0".parse().unwrap()]);
    assert!(policy(&[], &["8.0.0.0/8"]).select("two.example", addresses()).is_err());
    assert_eq!(policy(&[], &[]).select("none.example", std::iter::empty()).unwrap(), []);
}

#[test]
fn destinations_are_read_and_written() {
    for (text, written) in [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("10.1.2.3", "10.1.2.3/32"),
        ("fd00::/8", "fd00::/8"),
        ("API.internal", "api.internal"),
        ("*.Corp.example", "*.corp.example"),
    ] {
        assert_eq!(text.parse::<Destination>().unwrap().to_string(), written);
    }
    for text in ["", "10.0.0.0/33", "http://x", "a b", "*.10.0.0.1", "a/b"] {
        assert!(matches!(text.parse::<Destination>(), Err(InvalidDestination(_))), "{text}");
    }
}

fn cluster(allow: &[&str], deny: &[&str]) -> EgressPolicy {
    let parse = |all: &[&str]| all.iter().map(|d| d.parse().unwrap()).collect();
    EgressPolicy::cluster(parse(allow), parse(deny), vec![ip("10.96.0.1"), ip("34.1.2.3"), ip("fd00:10::1")])
}

#[test]
fn in_a_cluster_services_are_reached_by_their_names_only() {
    let policy = cluster(&[], &[]);
    for (host, address) in [
        ("api.team.svc", "10.96.4.5"),
        ("api.team.svc.", "172.20.1.1"),
        ("API.TEAM.svc.cluster.local", "192.168.7.7"),
        ("pod-0.api.team.svc", "100.64.3.4"),
        ("api.team.svc", "fd12::5"),
        ("api.team.svc", "::ffff:10.96.4.5"),
        ("api.example.com", "8.8.8.8"),
    ] {
        assert!(policy.permits(host, ip(address)), "{host} {address}");
    }
    for (host, address) in [
        ("api.example.com", "10.96.4.5"),
        ("10.96.4.5", "10.96.4.5"),
        ("api.team", "10.96.4.5"),
        ("api.team.svc.evil.example", "10.96.4.5"),
        ("10-1-2-3.team.pod.cluster.local", "10.1.2.3"),
        ("localhost", "127.0.0.1"),
        ("api.team.svc", "127.0.0.1"),
        ("api.team.svc", "::1"),
        ("api.team.svc", "0.0.0.0"),
        ("api.team.svc", "169.254.169.254"),
        ("api.team.svc", "::ffff:169.254.169.254"),
        ("api.team.svc", "fe80::1"),
        ("api.team.svc", "fd00:ec2::254"),
        ("api.team.svc", "100.100.100.200"),
        ("api.team.svc", "224.0.0.1"),
        // A Service that leads out of the cluster.
        ("api.team.svc", "8.8.8.8"),
        ("api.team.svc.cluster.local.", "2606:4700::1111"),
        // The API server, wherever it is and however it is named.
        ("kubernetes.default.svc", "10.96.0.1"),
        ("api.team.svc", "10.96.0.1"),
        ("api.team.svc", "::ffff:10.96.0.1"),
        ("api.team.svc", "64:ff9b::a60:1"),
        ("api.team.svc", "fd00:10::1"),
        ("api.example.com", "34.1.2.3"),
        ("34.1.2.3", "34.1.2.3"),
    ] {
        assert!(!policy.permits(host, ip(address)), "{host} {address}");
    }
}

#[test]
fn metadata_is_out_of_reach_unless_it_is_named() {
    for address in ["168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"] {
        for policy in [EgressPolicy::standalone(), cluster(&[], &[])] {
            assert!(!policy.permits("host", ip(address)), "{address}");
        }
        assert!(cluster(&[address], &[]).permits("host", ip(address)), "{address}");
    }
}

#[test]
fn the_group_opens_and_closes_by_any_spelling() {
    let policy = cluster(&["10.96.0.1", "db.shared.svc", "*.corp.example"], &["api.team.svc", "*.closed.svc"]);
    for (host, address) in [
        ("kubernetes.default.svc", "10.96.0.1"),
        ("db.shared.svc.cluster.local.", "10.1.1.1"),
        ("git.corp.example", "10.1.1.1"),
    ] {
        assert!(policy.permits(host, ip(address)), "{host}");
    }
    for host in ["api.team.svc", "api.team.svc.cluster.local", "API.team.SVC.", "x.closed.svc.cluster.local"] {
        assert!(!policy.permits(host, ip("10.1.1.1")), "{host}");
        assert!(!policy.permits(host, ip("8.8.8.8")), "{host}");
        let url = format!("http://{host}/").parse().unwrap();
        assert!(policy.check(&Origin::of(&url).unwrap()).is_err(), "{host}");
    }
    assert_eq!(policy.lookup("git.corp.example"), "git.corp.example", "its owner explains it");
    assert_eq!(policy.lookup("api.github.com"), "api.github.com.");
    assert_eq!(EgressPolicy::standalone().lookup("api.github.com"), "api.github.com");
}

#[test]
fn an_exposition_has_the_services_of_its_namespace() {
    let policy = cluster(&["db.shared.svc", "10.5.0.0/16"], &["api.shut.svc"]);
    let check = |base: &str, namespace: &str| policy.check_base(&base.parse().unwrap(), namespace);
    for (base, namespace) in [
        ("http://api.team.svc:8080/v1", "team"),
        ("http://API.team.SVC.cluster.local./", "team"),
        ("http://pod-0.api.team.svc", "team"),
        ("http://db.shared.svc.cluster.local", "team"),
        ("https://api.github.com", "team"),
        ("http://10.5.1.1", "team"),
        ("http://api.svc.svc", "svc"),
    ] {
        assert_eq!(check(base, namespace), Ok(()), "{base}");
    }
    for (base, namespace, expected) in [
        ("http://api.team.svc", "other", "namespace team"),
        ("http://team.api.svc.cluster.local.", "team", "namespace api"),
        ("http://team.api.other.svc", "team", "namespace other"),
        ("http://api.shut.svc", "shut", "may not reach"),
        ("http://10.96.4.5", "team", "may not reach"),
        ("http://[::ffff:10.0.0.1]", "team", "may not reach"),
        ("http://0x0a000001/", "team", "may not reach"),
        ("http://2852039166/", "team", "may not reach"),
        ("http://127.0.0.1", "team", "may not reach"),
    ] {
        let refused = check(base, namespace).unwrap_err();
        assert!(refused.contains(expected) && refused.contains("egress"), "{base}: {refused}");
    }
    assert_eq!(EgressPolicy::standalone().check_base(&"http://10.0.0.1".parse().unwrap(), "team"), Ok(()));
}

#[test]
fn a_redirect_leads_to_no_service() {
    let policy = cluster(&["db.shared.svc"], &[]);
    assert!(policy.is_privileged());
    let restricted = policy.restricted();
    assert!(!restricted.is_privileged());
    assert!(!restricted.permits("api.team.svc", ip("10.96.4.5")));
    assert!(restricted.permits("db.shared.svc.cluster.local", ip("10.96.4.5")));
    assert!(restricted.permits("api.example.com", ip("8.8.8.8")));
    assert!(!restricted.permits("kubernetes.default.svc", ip("10.96.0.1")));
}

#[test]
fn what_is_learned_is_out_of_reach() {
    let policy = cluster(&["10.244.9.0/24"], &[]);
    assert!(policy.permits("api.team.svc", ip("10.96.0.9")) && policy.permits("host", ip("8.8.4.4")));
    policy.reserved().set_service([ip("10.96.0.9"), ip("10.244.9.9")]);
    policy.reserved().add_api_server(ip("172.18.0.2"));
    policy.reserved().add_api_server(ip("8.8.4.4"));
    for policy in [&policy, &policy.clone(), &policy.restricted()] {
        for (host, address) in [
            ("api.team.svc", "10.96.0.9"),
            ("api.team.svc", "::ffff:10.96.0.9"),
            ("api.team.svc", "64:ff9b::a60:9"),
            ("api.team.svc", "172.18.0.2"),
            ("api.team.svc", "::ffff:172.18.0.2"),
            ("managed.example", "8.8.4.4"),
            ("8.8.4.4", "8.8.4.4"),
        ] {
            assert!(!policy.permits(host, ip(address)), "{host} {address}");
        }
        assert!(policy.permits("api.team.svc", ip("10.244.9.9")), "the group says so");
    }
    // A Service that is made again has another address.
    policy.reserved().set_service([ip("10.96.0.10")]);
    assert!(policy.permits("api.team.svc", ip("10.96.0.9")) && !policy.permits("api.team.svc", ip("10.96.0.10")));
}

#[cfg(target_os = "linux")]
#[test]
fn a_gateway_of_a_cluster_does_not_reach_its_own_interfaces() {
    let policy = cluster(&[], &[]);
    // As of a pod: an address that would be permitted but for being its own.
    assert!(policy.reserved().is_gateway(ip("127.0.0.1")));
    assert!(!policy.permits("api.team.svc", ip("127.0.0.1")) && !policy.permits("localhost", ip("127.0.0.1")));
}

#[tokio::test]
async fn a_service_that_is_an_alias_is_not_called() {
    let mut policy = cluster(&["out.other.svc"], &[]);
    let server = crate::upstream::dns::tests::nameserver(false, crate::upstream::dns::tests::services).await;
    policy.cluster.as_mut().unwrap().nameservers = vec![server];
    let resolver = Resolver(std::sync::Arc::new(policy));
    let resolve = async |host: &str| {
        let found = resolver.clone().resolve(host.parse().unwrap()).await;
        found.map(|all| all.map(|address| address.ip().to_string()).collect::<Vec<_>>())
    };
    assert_eq!(resolve("api.team.svc").await.unwrap(), ["10.96.0.7"]);
    assert_eq!(resolve("WEB.team.svc.cluster.local.").await.unwrap(), ["10.244.0.1", "10.244.0.2"]);
    // An ExternalName to a public host, and one to the API server's Service.
    for host in ["out.team.svc", "out.team.svc.cluster.local", "chain.team.svc"] {
        let error = resolve(host).await.unwrap_err();
        assert!(error.to_string().contains("forbids"), "{host}: {error}");
    }
    assert!(resolve("none.team.svc").await.unwrap().is_empty());
}
