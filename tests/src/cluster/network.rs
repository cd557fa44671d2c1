//! A network on which a cluster has nodes, and what the programs of a node need to take part.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::access::Identity;
use super::{Cluster, Pair};

/// Where the API server is for nodes and their pods.
#[derive(Debug, Clone)]
pub struct Network {
    /// Its address: of this machine, and not loopback.
    pub address: IpAddr,
}

impl Network {
    /// What clients call it by, beside the usual names: its address, and that of the Service `kubernetes`.
    pub(super) fn names(&self) -> Vec<String> {
        vec![self.address.to_string(), "10.96.0.1".to_owned(), "kubernetes.default.svc.cluster.local".to_owned()]
    }
}

impl Cluster {
    /// Writes a kubeconfig of one more client, known by a certificate.
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

    /// The certificate of one more server, with its names and addresses.
    ///
    /// # Errors
    /// One of the names is none, or a file cannot be written.
    pub fn server_certificate(&self, file: &str, names: &[&str]) -> Result<Pair> {
        self.api_server.certificates.server(file, names.iter().map(|&name| name.to_owned()).collect())
    }

    /// The certificate of the authority that all others are by.
    #[must_use]
    pub fn authority(&self) -> &Path {
        &self.api_server.certificates.authority
    }

    /// The key that tokens of service accounts are signed with.
    #[must_use]
    pub fn token_key(&self) -> &Path {
        &self.api_server.certificates.tokens
    }

    /// Where the cluster's files and logs are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}
