//! The network of a cluster with nodes, and the credentials of the programs on a node.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::access::Identity;
use super::{Cluster, Pair};

/// The address at which nodes and their pods reach the API server.
#[derive(Debug, Clone)]
pub struct Network {
    /// An address of this machine other than loopback.
    pub address: IpAddr,
}

impl Network {
    /// Returns the API server's names in addition to the default ones: its address, and the address and full name of
    /// the Service `kubernetes`.
    pub(super) fn names(&self) -> Vec<String> {
        vec![self.address.to_string(), "10.96.0.1".to_owned(), "kubernetes.default.svc.cluster.local".to_owned()]
    }
}

impl Cluster {
    /// Writes a kubeconfig for another client, which authenticates with a certificate.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn member(&self, file: &str, name: &str, organization: Option<&str>) -> Result<PathBuf> {
        let Pair { certificate, key } = self.api_server.certificates.client(file, name, organization)?;
        let kubeconfig = self.folder.path().join(format!("{file}.kubeconfig"));
        let identity = Identity::Certificate { certificate: &certificate, key: &key };
        self.api_server.kubeconfig(&kubeconfig, "default", &identity)?;
        Ok(kubeconfig)
    }

    /// Writes the certificate of another server, with its names and addresses.
    ///
    /// # Errors
    /// A name is invalid, or a file cannot be written.
    pub fn server_certificate(&self, file: &str, names: &[&str]) -> Result<Pair> {
        self.api_server.certificates.server(file, names.iter().map(|&name| name.to_owned()).collect())
    }

    /// Returns the certificate of the authority that signs all others.
    #[must_use]
    pub fn authority(&self) -> &Path {
        &self.api_server.certificates.authority
    }

    /// Returns the key that signs tokens of service accounts.
    #[must_use]
    pub fn token_key(&self) -> &Path {
        &self.api_server.certificates.tokens
    }

    /// Returns the folder with the cluster's files and logs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}
