use super::{ClusterNetwork, domain, nameservers};

fn network() -> ClusterNetwork {
    ClusterNetwork::new(vec!["10.96.0.1".parse().unwrap()])
}

#[test]
fn names_of_services_are_known_in_every_spelling() {
    let network = network();
    for (host, service, namespace) in [
        ("api.team.svc", "api.team", "team"),
        ("api.team.svc.", "api.team", "team"),
        ("api.team.svc.cluster.local", "api.team", "team"),
        ("api.team.svc.cluster.local.", "api.team", "team"),
        ("API.Team.SVC.Cluster.Local", "API.Team", "Team"),
        ("pod-0.api.team.svc", "pod-0.api.team", "team"),
        ("api.svc.svc", "api.svc", "svc"),
        // Kubernetes reads it so: a Service named `svc`, of the gateway's own namespace at the most by a search list.
        ("api.team.svc.other.svc", "api.team.svc.other", "other"),
    ] {
        assert_eq!(network.service(host), Some(service), "{host}");
        assert_eq!(network.namespace(host), Some(namespace), "{host}");
    }
    for host in [
        "",
        ".",
        "svc",
        ".svc",
        "team.svc",
        ".team.svc",
        "api..svc",
        "a..team.svc",
        "api.team.svc..",
        "api.team.svc.cluster",
        "api.team.svc.cluster.local.evil.example",
        "api.team.svc.evil.example",
        "api.teamsvc",
        "1-2-3-4.team.pod.cluster.local",
        "api.team",
        "cluster.local",
    ] {
        assert_eq!(network.service(host), None, "{host}");
    }
}

#[test]
fn whole_names_are_looked_up() {
    let network = network();
    for (host, whole) in [
        ("api.team.svc", "api.team.svc.cluster.local."),
        ("api.team.svc.cluster.local", "api.team.svc.cluster.local."),
        ("api.team.svc.", "api.team.svc.cluster.local."),
        ("api.github.com", "api.github.com."),
        ("api.github.com.", "api.github.com."),
        ("localhost", "localhost"),
    ] {
        assert_eq!(network.whole(host), whole, "{host}");
    }
}

#[test]
fn the_domain_is_that_of_the_search_list() {
    for (text, expected) in [
        (
            "nameserver 10.96.0.10\nsearch team.svc.cluster.local svc.cluster.local cluster.local\n",
            Some("cluster.local"),
        ),
        (
            "search\ta.svc.K8S.corp.example. svc.K8S.corp.example. k8s.corp.example\noptions ndots:5",
            Some("k8s.corp.example"),
        ),
        ("search svc.one\nsearch svc.two", Some("two")),
        ("# search svc.no\nsearchsvc svc.no\n", None),
        ("search corp.example svc.", None),
        ("", None),
    ] {
        assert_eq!(domain(text).as_deref(), expected, "{text}");
    }
    let mut network = network();
    network.read_resolv_conf("search svc.corp.example");
    assert_eq!(network.service("api.team.svc.corp.example"), Some("api.team"));
    assert_eq!(network.service("api.team.svc.cluster.local"), None);
    assert_eq!(network.whole("api.team.svc"), "api.team.svc.corp.example.");
    network.read_resolv_conf("nameserver 1.1.1.1");
    assert_eq!(network.whole("api.team.svc"), "api.team.svc.corp.example.");
}

#[test]
fn nameservers_are_those_of_the_file() {
    for (text, expected) in [
        ("nameserver 10.96.0.10\nsearch svc.cluster.local\n", &["10.96.0.10:53"][..]),
        ("nameserver\tfd00::a\n  nameserver 169.254.20.10 # local\n", &["[fd00::a]:53", "169.254.20.10:53"]),
        ("#nameserver 1.1.1.1\nnameserver dns.example\nnameservers 1.1.1.1\n", &[]),
        ("", &[]),
    ] {
        let found: Vec<_> = nameservers(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{text}");
    }
}
