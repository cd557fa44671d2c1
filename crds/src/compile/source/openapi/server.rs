//! The base URL of a document's first server.

use super::document::{At, Document, Halt};
use super::operation::Operation;
use crate::compile::service::base_url_problems;
use crate::read::excerpt;

/// The most servers of an operation that are compared.
const MAX_SERVERS: usize = 64;
/// The most variables of a server.
const MAX_VARIABLES: usize = 64;

/// Returns the URL of the first server, with the defaults of its variables. `None` if the document names no server by an
/// absolute URL.
///
/// # Errors
/// For a URL that no service may have.
pub(super) fn base_url(document: &Document<'_>) -> Result<Option<String>, Halt> {
    let Some(server) = first(document.root()) else { return Ok(None) };
    let Some(at) = server.get("url") else { return Ok(None) };
    let url = match url(&server) {
        Ok(url) => url,
        Err(variable) => {
            return Err(document.mistake(&variable, "the variable has no default", "add `default`, or set `baseUrl`"));
        }
    };
    // A relative URL is relative to where the document was, which is not known.
    if !url.contains("://") {
        return Ok(None);
    }
    match base_url_problems(&url, "set `baseUrl` without one").into_iter().next() {
        None => Ok(Some(url)),
        Some((message, _)) => {
            let message = format!("`{}`: {message}", excerpt(&url));
            Err(document.mistake(&at, message, "set `baseUrl` of the ServiceManifest"))
        }
    }
}

/// Returns whether a path or an operation has servers of its own that do not lead to the service's, with the first of them. `own`: the
/// `baseUrl` of the manifest.
///
/// The server of the operation replaces that of its path (OpenAPI 3.1, 4.8.10).
pub(super) fn elsewhere(document: &Document<'_>, operation: &Operation<'_>, own: Option<&str>) -> Option<String> {
    let place = [&operation.at, &operation.item].into_iter().find(|place| first(place).is_some())?;
    let written = |place: &At<'_>| first(place).and_then(|server| url(&server).ok());
    let server = written(place);
    if server.as_deref().map(plain) == written(document.root()).as_deref().map(plain) {
        return None;
    }
    let servers = place.get("servers").into_iter().flat_map(|all| all.items().take(MAX_SERVERS).collect::<Vec<_>>());
    let is_chosen = |own: &str| servers.filter_map(|server| url(&server).ok()).any(|url| plain(&url) == plain(own));
    if own.is_some_and(is_chosen) {
        return None;
    }
    Some(server.unwrap_or_default())
}

/// Returns a URL in the form in which servers are compared: with the scheme, unless it is `https` or left open (`//HOST`), the host in
/// lower case, without a default port and without a slash at the end.
fn plain(url: &str) -> String {
    let url = url.trim_end_matches('/');
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url.trim_start_matches("//")));
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (scheme, host) = (scheme.to_ascii_lowercase(), host.to_ascii_lowercase());
    let port = if scheme == "http" { ":80" } else { ":443" };
    let relative = if url.contains("//") { "//" } else { "" };
    format!("{scheme}:{relative}{}{path}", host.strip_suffix(port).unwrap_or(&host))
}

fn first<'n>(place: &At<'n>) -> Option<At<'n>> {
    place.get("servers")?.items().next()
}

/// Returns the URL of a server with the defaults of its variables, or the variable that has none.
fn url<'n>(server: &At<'n>) -> Result<String, At<'n>> {
    let mut url = server.text_of("url").unwrap_or_default().to_owned();
    for (name, variable) in server.get("variables").iter().flat_map(At::members).take(MAX_VARIABLES) {
        let place = format!("{{{name}}}");
        if !url.contains(&place) {
            continue;
        }
        let Some(default) = variable.text_of("default").filter(|text| text.len() <= 256) else { return Err(variable) };
        url = url.replace(&place, default);
        if url.len() > 4096 {
            break;
        }
    }
    Ok(url)
}
