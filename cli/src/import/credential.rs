//! A credential of an import: it is in the environment, and a manifest refers to a Secret.

use anyhow::{Context as _, anyhow};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::tree::Tree;

/// Where a credential is.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct CredentialArgs {
    /// The environment variable with a bearer token for the server. A new manifest refers to the Secret of its own name, key
    /// `token`.
    #[arg(long, value_name = "VARIABLE")]
    bearer_env: Option<String>,
    /// A header with a credential for the server, and the environment variable with its value. As --bearer-env otherwise.
    #[arg(long, value_name = "NAME=VARIABLE", conflicts_with = "bearer_env")]
    header_env: Option<String>,
}

/// A credential: the header that carries it, and `auth` of a manifest without its secret.
pub(super) struct Credential {
    name: HeaderName,
    value: HeaderValue,
    auth: Tree,
}

impl CredentialArgs {
    /// Reads the credential.
    ///
    /// # Errors
    /// The variable is not set, or no header can carry its value.
    pub(super) fn read(&self) -> anyhow::Result<Option<Credential>> {
        let value = |variable: &str, prefix: &str| {
            let text =
                std::env::var(variable).map_err(|_| anyhow!("the environment variable {variable} is not set"))?;
            let mut value = HeaderValue::from_str(&format!("{prefix}{}", text.trim_end_matches(['\r', '\n'])))
                .map_err(|_| {
                    anyhow!("the environment variable {variable} has characters that a header cannot carry")
                })?;
            value.set_sensitive(true);
            Ok::<_, anyhow::Error>(value)
        };
        if let Some(variable) = &self.bearer_env {
            let auth = Tree::map([("type", Tree::text("bearer"))]);
            return Ok(Some(Credential { name: AUTHORIZATION, value: value(variable, "Bearer ")?, auth }));
        }
        let Some(header) = &self.header_env else { return Ok(None) };
        let (name, variable) = header.split_once('=').context("--header-env: write NAME=VARIABLE")?;
        let auth = Tree::map([("type", Tree::text("header")), ("name", Tree::text(name))]);
        let header: HeaderName = name.parse().map_err(|_| anyhow!("--header-env: `{name}` is not a header name"))?;
        Ok(Some(Credential { name: header, value: value(variable, "")?, auth }))
    }
}

impl Credential {
    /// Returns the headers of a request.
    pub(super) fn headers(credential: Option<&Self>) -> HeaderMap {
        credential.iter().map(|credential| (credential.name.clone(), credential.value.clone())).collect()
    }

    /// Returns `auth` of a manifest, which names the Secret of the manifest's own name.
    pub(super) fn auth_of(self, name: &str) -> Tree {
        let mut auth = self.auth;
        auth.push("secretRef", Tree::map([("name", Tree::text(name)), ("key", Tree::text("token"))]));
        auth
    }
}
