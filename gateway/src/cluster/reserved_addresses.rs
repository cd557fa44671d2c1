//! Keeps the list of cluster addresses that no upstream may have up to date while the gateway runs.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIVersions;
use tamis_config::names;

use crate::gateway::Gateway;

/// Interval between two lookups. A Service that is deleted and created again gets another address, and each of several
/// API servers reports only its own address.
const EVERY: Duration = Duration::from_secs(30);

/// Repeatedly asks the API server for its address, and the nameserver for the address of the group's own Service.
pub(super) async fn watch(client: kube::Client, gateway: Arc<Gateway>, namespace: String, group: String) {
    let service = format!("{}.{namespace}.svc", names::group_object(&group));
    loop {
        // Every account may read discovery, which has the address of the API server that answers.
        match client.list_core_api_versions().await {
            Ok(versions) => endpoints(&versions).for_each(|address| gateway.client.reserved().add_api_server(address)),
            Err(error) => tracing::debug!(%error, "the address of the API server could not be read"),
        }
        if let Some(addresses) = gateway.client.service_addresses(&service).await {
            gateway.client.reserved().set_service(addresses);
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Returns the addresses that an API server reports as its own.
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
    fn the_addresses_of_the_api_server_are_read_from_discovery() {
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
