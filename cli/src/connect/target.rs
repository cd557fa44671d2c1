//! The servers that a client should call: a URL, or the expositions of a folder.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, bail};
use tamis_config::{Access, ExpositionId};

use super::absolute;
use super::client::{Client, Server, Transport};
use crate::serve::{Preparation, base_url, exposition, listen};

/// The default environment variable for a caller's key.
const KEY: &str = "TAMIS_KEY";

/// The user's selection.
pub(super) struct Selection<'a> {
    pub(super) client: Client,
    pub(super) target: &'a str,
    pub(super) expositions: &'a [String],
    pub(super) name: Option<&'a str>,
    pub(super) key: Option<&'a str>,
    pub(super) stdio: bool,
}

impl Selection<'_> {
    /// Returns the servers for the client's configuration.
    ///
    /// # Errors
    /// If the options do not fit together. The error names the remedy.
    pub(super) fn servers(&self) -> anyhow::Result<Vec<Server>> {
        let servers = if self.target.starts_with("http://") || self.target.starts_with("https://") {
            vec![self.at_url()?]
        } else {
            self.of_folder()?
        };
        if let (Some(name), [_, _, ..]) = (self.name, &servers[..]) {
            bail!(
                "--name {name} applies to one exposition, but the folder has {}; choose one with --exposition",
                servers.len()
            );
        }
        Ok(servers)
    }

    fn at_url(&self) -> anyhow::Result<Server> {
        if self.stdio || !self.client.calls_urls() {
            bail!(
                "a client that starts its servers itself needs the folder with the documents instead of a URL{}",
                if self.stdio { "" } else { "; add public https URLs in Claude Desktop under Settings, Connectors" }
            );
        }
        if !self.expositions.is_empty() {
            bail!("--exposition applies to folders only; the URL already names its exposition");
        }
        let url = reqwest::Url::parse(self.target).ok().filter(|url| url.host().is_some());
        let url = url.context("invalid URL; write one like http://127.0.0.1:8080/mcp/default/github-internal")?;
        let mut parts = url.path().split('/').skip(1);
        let (Some("mcp"), Some(namespace), Some(name), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            bail!("the URL must end with /mcp/NAMESPACE/EXPOSITION; `tamis serve` prints the URLs that it serves");
        };
        let id = ExpositionId { namespace: namespace.to_owned(), name: name.to_owned() };
        let transport = Transport::Http { url: self.target.to_owned(), key: self.key.map(str::to_owned) };
        Ok(Server { name: self.name_of(&id)?, transport })
    }

    fn of_folder(&self) -> anyhow::Result<Vec<Server>> {
        let folder = Path::new(self.target);
        if !folder.exists() {
            bail!("{} is neither a URL nor a folder", self.target);
        }
        let preparation = Preparation::read(folder, None, true);
        let (group, snapshot) = (preparation.group(), preparation.snapshot());
        let addresses = snapshot.addresses();
        if addresses.is_empty() {
            bail!("{}; run `tamis validate {}` for details", preparation.why_nothing(), folder.display());
        }
        let asked = self.expositions.iter().map(|name| exposition(name).map_err(anyhow::Error::msg));
        let asked = asked.collect::<anyhow::Result<Vec<ExpositionId>>>()?;
        let known = || addresses.keys().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if let Some(unknown) = asked.iter().find(|id| !addresses.contains_key(id)) {
            bail!("{} has no exposition {unknown}; it serves {}", folder.display(), known());
        }
        let chosen = addresses.iter().filter(|(id, _)| asked.is_empty() || asked.contains(id));
        let address: Option<SocketAddr> = listen(None, group).parse().ok();
        let tls = group.and_then(|group| group.listener.as_ref()).is_some_and(|listener| listener.tls.is_some());
        let base = base_url(group, address.context("cannot parse the port of the GatewayGroup")?, tls);
        let servers = chosen.map(|(id, access)| {
            let transport = if self.stdio || !self.client.calls_urls() {
                process(folder, id)?
            } else {
                Transport::Http { url: format!("{base}/mcp/{id}"), key: self.key_of(*access) }
            };
            Ok(Server { name: self.name_of(id)?, transport })
        });
        servers.collect()
    }

    fn key_of(&self, access: Option<&Access>) -> Option<String> {
        let wants = access.is_some_and(Access::authenticates);
        self.key.or_else(|| wants.then_some(KEY)).map(str::to_owned)
    }

    /// Returns a name that clients accept.
    fn name_of(&self, id: &ExpositionId) -> anyhow::Result<String> {
        let name = match (self.name, id.namespace.as_str()) {
            (Some(name), _) => name.to_owned(),
            (None, "default") => id.name.replace('.', "-"),
            (None, namespace) => format!("{namespace}-{}", id.name).replace('.', "-"),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || !name.chars().all(plain) {
            bail!("`{name}` is not a valid server name; choose one of letters, digits, - and _ with --name");
        }
        Ok(name)
    }
}

/// Returns the command `tamis serve DIR --stdio`, with absolute paths.
fn process(folder: &Path, id: &ExpositionId) -> anyhow::Result<Transport> {
    let command = absolute(&std::env::current_exe().context("cannot determine the path of this program")?)?;
    let args = ["serve", &absolute(folder)?, "--stdio", "--exposition", &id.to_string()].map(str::to_owned);
    Ok(Transport::Stdio { command, args: args.to_vec() })
}
