//! The options of an operator.

use std::fmt;

use kube::Client;
use tamis_crds::ObjectName;
use tokio::net::TcpListener;

use crate::quota::Quotas;

/// The options of an operator.
pub struct Options {
    /// The client for the Kubernetes API.
    pub client: Client,
    /// The namespaces that the operator reconciles. All namespaces if empty.
    pub namespaces: Vec<String>,
    /// Base URLs of the admin listeners of gateways that are not pods, as in `http://127.0.0.1:9090`, each optionally
    /// preceded by `NAMESPACE/GROUP=`.
    pub gateway_admin: Vec<String>,
    /// The bearer token for those gateways.
    pub gateway_admin_token: Option<Token>,
    /// The listener for `/metrics`, `/livez` and `/readyz`.
    pub admin: TcpListener,
    /// The group of expositions that name none, if their namespace has no group `default`.
    pub default_group: Option<ObjectName>,
    /// The operator ignores groups that name another `controllerName`.
    pub controller_name: String,
    /// The leader-election identity. It must be unique among operators.
    pub identity: String,
    /// The namespace of the Lease.
    pub lease_namespace: String,
    /// The name of the Lease. Of the operators that share a Lease, one leads.
    pub lease_name: String,
    /// The namespace of the operator's own pod. `None` if the operator is not a pod.
    pub own_namespace: Option<String>,
    /// The image of gateways whose group names none.
    pub gateway_image: String,
    /// The quotas of each namespace.
    pub quotas: Quotas,
}

impl Options {
    /// The `controllerName` of groups that name none.
    pub const CONTROLLER_NAME: &str = "tamis.dev/operator";
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("namespaces", &self.namespaces)
            .field("gateway_admin", &self.gateway_admin)
            .field("default_group", &self.default_group)
            .field("controller_name", &self.controller_name)
            .field("identity", &self.identity)
            .field("lease_namespace", &self.lease_namespace)
            .field("lease_name", &self.lease_name)
            .field("own_namespace", &self.own_namespace)
            .field("gateway_image", &self.gateway_image)
            .field("quotas", &self.quotas)
            .finish_non_exhaustive()
    }
}

/// A bearer token. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Creates a token from text, without surrounding white space. Returns `None` if the text is empty, longer than
    /// 4096 bytes, or cannot be sent in a header.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let fits = !text.is_empty() && text.len() <= 4096 && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Self(text.to_owned()))
    }

    /// Returns the token as text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}
