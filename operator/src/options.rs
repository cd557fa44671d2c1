//! What an operator is started with.

use std::fmt;

use kube::Client;
use tamis_crds::ObjectName;
use tokio::net::TcpListener;

use crate::quota::Quotas;

/// What an operator is started with.
pub struct Options {
    /// How the API is reached.
    pub client: Client,
    /// The namespaces that are looked after; all where empty.
    pub namespaces: Vec<String>,
    /// Base URLs of the admin listeners of gateways that are not pods: `http://127.0.0.1:9090`.
    pub gateway_admin: Vec<String>,
    /// The bearer token that those want.
    pub gateway_admin_token: Option<Token>,
    /// Where `/metrics`, `/livez` and `/readyz` are served.
    pub admin: TcpListener,
    /// The group of expositions that name none, where their namespace has no group `default`.
    pub default_group: Option<ObjectName>,
    /// Groups that name another `controllerName` are left alone.
    pub controller_name: String,
    /// Who we are in the election; no two operators may have one identity.
    pub identity: String,
    /// The namespace of the Lease.
    pub lease_namespace: String,
    /// The name of the Lease: operators that share one take turns.
    pub lease_name: String,
    /// The namespace of the operator's own pod; none where it is not a pod.
    pub own_namespace: Option<String>,
    /// The image of gateways whose group names none.
    pub gateway_image: String,
    /// What each namespace may use.
    pub quotas: Quotas,
}

impl Options {
    /// `controllerName` of groups that name none.
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

/// A bearer token. Not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token as a header carries it; none where it is empty or a header could not carry it.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let fits = !text.is_empty() && text.len() <= 4096 && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Self(text.to_owned()))
    }

    /// The token itself.
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
