//! The certificates and keys that the components of a cluster use to authenticate to each other.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// The certificates and keys of one cluster, as files.
pub(super) struct Certificates {
    folder: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub(super) authority: PathBuf,
    /// The API server's certificate, signed by the authority.
    pub(super) server: Pair,
    /// The certificate of a client in the group `system:masters`, signed by the authority.
    pub(super) admin: Pair,
    /// The key that signs tokens of service accounts.
    pub(super) tokens: PathBuf,
    /// The public key that verifies those tokens.
    pub(super) tokens_public: PathBuf,
}

/// The files of a certificate and its key.
#[derive(Debug, Clone)]
pub struct Pair {
    /// PEM.
    pub certificate: PathBuf,
    /// PEM.
    pub key: PathBuf,
}

impl Certificates {
    /// Writes the files of a cluster. `names` are additional names and addresses of the API server.
    pub(super) fn write(folder: &Path, names: &[String]) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name = name(&[(DnType::CommonName, "tamis-tests")]);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

        let server = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let server: Vec<String> = server.map(str::to_owned).into_iter().chain(names.iter().cloned()).collect();
        let tokens = KeyPair::generate()?;
        Ok(Self {
            authority: file(folder, "ca.pem", &authority.pem())?,
            server: signed(folder, "server", of_server("kube-apiserver", server)?, &authority)?,
            admin: signed(folder, "admin", of_client("tamis-tests", Some("system:masters")), &authority)?,
            tokens: file(folder, "tokens.key", &tokens.serialize_pem())?,
            tokens_public: file(folder, "tokens.pub", &tokens.public_key_pem())?,
            folder: folder.to_owned(),
            issuer: authority,
        })
    }

    /// Writes the certificate of another client, with its user name and group.
    pub(super) fn client(&self, file: &str, name: &str, organization: Option<&str>) -> Result<Pair> {
        signed(&self.folder, file, of_client(name, organization), &self.issuer)
    }

    /// Writes the certificate of another server, with its names and addresses.
    pub(super) fn server(&self, file: &str, names: Vec<String>) -> Result<Pair> {
        signed(&self.folder, file, of_server(file, names)?, &self.issuer)
    }
}

fn of_client(common: &str, organization: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    let organization = organization.map(|text| (DnType::OrganizationName, text));
    let parts: Vec<_> = organization.into_iter().chain([(DnType::CommonName, common)]).collect();
    params.distinguished_name = name(&parts);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn of_server(common: &str, names: Vec<String>) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = name(&[(DnType::CommonName, common)]);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

fn name(parts: &[(DnType, &str)]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    for (kind, value) in parts {
        name.push(kind.clone(), *value);
    }
    name
}

fn signed(
    folder: &Path,
    name: &str,
    mut params: CertificateParams,
    authority: &CertifiedIssuer<'_, KeyPair>,
) -> Result<Pair> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, authority)?;
    Ok(Pair {
        certificate: file(folder, &format!("{name}.pem"), &certificate.pem())?,
        key: file(folder, &format!("{name}.key"), &key.serialize_pem())?,
    })
}

fn file(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    fs::write(&path, text)?;
    Ok(path)
}
