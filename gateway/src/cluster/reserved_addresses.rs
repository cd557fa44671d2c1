//! Learns the addresses in the cluster that no upstream may have, for as long as the gateway runs.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIVersions;
use tamis_config::names;

use crate::gateway::Gateway;

/// How often. A Service that is made again has another address, and of several API servers each tells its own alone.
const EVERY: Duration = Duration::from_secs(30);

/// Asks the API server where it is, and the nameserver where the group's own Service is, again and again.
pub(super) async fn watch(client: kube::Client, gateway: Arc<Gateway>, namespace: String, group: String) {
    let service = format!("{}.{namespace}.svc", names::group_object(&group));
    loop {
        // Every account may ask this: discovery tells under which address the API server that answers is reached.
        match client.list_core_api_versions().await {
            Ok(versions) => endpoints(&versions).for_each(|address| gateway.client.reserved().add_api_server(address)),
            Err(error) => tracing::debug!(%error, "the API server does not say where it is"),
        }
        if let Some(addresses) = gateway.client.service_addresses(&service).await {
            gateway.client.reserved().set_service(addresses);
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// The addresses that an API server names as its own.
fn endpoints(versions: &APIVersions) -> impl Iterator<Item = std::net::IpAddr> {
    let each = versions.server_address_by_client_cidrs.iter();
    each.filter_map(|entry| {
        let text = entry.server_address.as_str();
        let socket = text.parse::<std::net::SocketAddr>().map(|socket| socket.ip());
        socket.or_else(|_| text.parse()).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_server_names_itself() {
        let versions = serde_json::json!({
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [
                {"clientCIDR": "0.0.0.0/0", "serverAddress": "172.18.0.2:6443"},
                {"clientCIDR": "::/0", "serverAddress": "[fd00::2]:6443"},
                {"clientCIDR": "10.0.0.0/8", "serverAddress": "10.0.0.1"},
                {"clientCIDR": "10.0.0.0/8", "serverAddress": "api.example.com:6443"},
            ],
        });
        let versions: APIVersions = serde_json::from_value(versions).unwrap();
        let found: Vec<_> = endpoints(&versions).map(|address| address.to_string()).collect();
        assert_eq!(found, ["172.18.0.2", "fd00::2", "10.0.0.1"]);
    }
}
