//! The base URL of a document's first server.

use super::document::{At, Document, Halt};
use crate::compile::service::base_url_problems;
use crate::read::excerpt;

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

/// Returns whether a path or an operation has a first server of its own that is another one than the document's.
pub(super) fn is_elsewhere(document: &Document<'_>, place: &At<'_>) -> bool {
    let written = |place: &At<'_>| first(place).and_then(|server| url(&server).ok());
    // `//HOST` leaves the scheme open.
    let plain = |url: String| url.trim_start_matches("https:").trim_end_matches('/').to_owned();
    first(place).is_some() && written(place).map(plain) != written(document.root()).map(plain)
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
