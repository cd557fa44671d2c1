//! What a cluster's parts prove to each other who they are with.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// Files of one cluster.
#[derive(Debug)]
pub(super) struct Certificates {
    pub(super) authority: PathBuf,
    /// Of the API server, by the authority.
    pub(super) server: Pair,
    /// A client's in the group `system:masters`, by the authority.
    pub(super) admin: Pair,
    /// Signs the tokens of service accounts.
    pub(super) tokens: PathBuf,
    /// What those are checked with.
    pub(super) tokens_public: PathBuf,
}

#[derive(Debug)]
pub(super) struct Pair {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Certificates {
    pub(super) fn write(folder: &Path) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name = name(&[(DnType::CommonName, "tamis-tests")]);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

        let mut server = CertificateParams::new(
            ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"].map(str::to_owned),
        )?;
        server.distinguished_name = name(&[(DnType::CommonName, "kube-apiserver")]);
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];

        let mut admin = CertificateParams::default();
        admin.distinguished_name =
            name(&[(DnType::OrganizationName, "system:masters"), (DnType::CommonName, "tamis-tests")]);
        admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];

        let tokens = KeyPair::generate()?;
        Ok(Self {
            authority: file(folder, "ca.pem", &authority.pem())?,
            server: signed(folder, "server", server, &authority)?,
            admin: signed(folder, "admin", admin, &authority)?,
            tokens: file(folder, "tokens.key", &tokens.serialize_pem())?,
            tokens_public: file(folder, "tokens.pub", &tokens.public_key_pem())?,
        })
    }
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
