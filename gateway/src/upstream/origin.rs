//! Where requests go: the parts of a URL that are known when a document is loaded, and the rest of it.

use std::fmt;
use std::sync::Arc;

use http::Uri;
use http::header::HeaderValue;
use http::uri::{Authority, PathAndQuery, Scheme};
use url::{Host, Position, Url};

use super::InvalidService;

/// Parses the URL of a server, of which the kind of service may allow less. `example`: what to write in its place.
///
/// # Errors
/// Names `field`: it is no URL of `http` or `https`, or it holds a user or a password.
pub(super) fn server_url(field: &str, text: &str, example: &str) -> Result<Url, InvalidService> {
    let invalid = |message: &str| InvalidService::new(field, message);
    let url = Url::parse(text).map_err(|_| invalid(&format!("is not a URL; write {example}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("must begin with https:// or http://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("must not hold a user or a password; use `auth`"));
    }
    Ok(url)
}

/// Scheme, host and port of an `http` or `https` URL, prepared for requests.
#[derive(Debug)]
pub(crate) struct Origin {
    scheme: Scheme,
    authority: Authority,
    host: Host<String>,
    /// The host as a URL has it: an IPv6 address in brackets.
    text: Box<str>,
    port: u16,
    /// The value of the `Host` header.
    header: HeaderValue,
}

impl PartialEq for Origin {
    fn eq(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.host == other.host && self.port == other.port
    }
}

impl Origin {
    /// Returns the origin of a URL, or `None` if no request can go there.
    pub(crate) fn of(url: &Url) -> Option<Self> {
        let scheme = match url.scheme() {
            "https" => Scheme::HTTPS,
            "http" => Scheme::HTTP,
            _ => return None,
        };
        // Without a user and a password. The parser has removed a default port.
        let authority = &url[Position::BeforeHost..Position::AfterPort];
        Some(Self {
            scheme,
            authority: Authority::try_from(authority).ok()?,
            host: url.host()?.to_owned(),
            text: url.host_str()?.into(),
            port: url.port_or_known_default()?,
            header: HeaderValue::from_str(authority).ok()?,
        })
    }

    /// Returns `https` or `http`.
    pub(crate) fn scheme(&self) -> &str {
        self.scheme.as_str()
    }

    /// Returns whether requests are encrypted.
    pub(crate) fn is_https(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// Returns the host.
    pub(crate) fn host(&self) -> Host<&str> {
        match &self.host {
            Host::Domain(name) => Host::Domain(name),
            Host::Ipv4(address) => Host::Ipv4(*address),
            Host::Ipv6(address) => Host::Ipv6(*address),
        }
    }

    /// Returns the host as a URL has it: an IPv6 address in brackets.
    pub(crate) fn host_str(&self) -> &str {
        &self.text
    }

    /// Returns the port, the scheme's default included.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns host and port as a URL has them.
    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Returns the value of the `Host` header.
    pub(crate) fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// Returns the bytes of a URL before its path.
    pub(crate) fn len(&self) -> usize {
        self.scheme().len() + "://".len() + self.authority.as_str().len()
    }

    /// Returns the absolute form of a request's target.
    pub(crate) fn absolute(&self, path: PathAndQuery) -> Uri {
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(path);
        // All three are there, so that they make a URI.
        Uri::from_parts(parts).unwrap_or_default()
    }
}

/// A URL that a request goes to. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Target {
    origin: Arc<Origin>,
    path: PathAndQuery,
}

/// Without the path and the query, which may hold a credential.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/..", self.origin.scheme, self.origin.authority)
    }
}

impl Target {
    /// Joins an origin, and a path with its query, which begins with a slash.
    pub(crate) fn new(origin: &Arc<Origin>, path_and_query: String) -> Option<Self> {
        let path = PathAndQuery::from_maybe_shared(bytes::Bytes::from(path_and_query)).ok()?;
        Some(Self { origin: Arc::clone(origin), path })
    }

    /// Returns the target for a URL, which has the origin `known` or another one; `None` for a URL that HTTP's own types do not
    /// accept.
    pub(crate) fn of(url: &Url, known: &Arc<Origin>) -> Option<Self> {
        let origin = Origin::of(url)?;
        let origin = if origin == **known { Arc::clone(known) } else { Arc::new(origin) };
        Self::new(&origin, url[Position::BeforePath..Position::AfterQuery].to_owned())
    }

    /// Returns where it is.
    pub(crate) fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// Returns the path, percent-encoded.
    pub(crate) fn path(&self) -> &str {
        self.path.path()
    }

    /// Returns the query, percent-encoded, without its question mark.
    pub(crate) fn query(&self) -> Option<&str> {
        self.path.query()
    }

    /// Returns the path and the query, as a request to the origin has them.
    pub(crate) fn path_and_query(&self) -> &PathAndQuery {
        &self.path
    }

    /// Replaces the query, which is percent-encoded. Returns `None` if HTTP's own types do not accept the result.
    pub(crate) fn with_query(&self, query: Option<&str>) -> Option<Self> {
        let text = match query {
            Some(query) => format!("{}?{query}", self.path()),
            None => self.path().to_owned(),
        };
        Self::new(&self.origin, text)
    }

    /// Returns the bytes of the whole URL.
    pub(crate) fn len(&self) -> usize {
        self.origin.len() + self.path.as_str().len()
    }

    /// Returns the whole URL, parsed. For what is rare: it costs more than all the rest of a request.
    pub(crate) fn url(&self) -> Option<Url> {
        Url::parse(&format!("{}://{}{}", self.origin.scheme, self.origin.authority, self.path)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_the_url_that_it_was_made_of() {
        for text in [
            "http://127.0.0.1/",
            "http://127.0.0.1:8080/a/b?c=d&e",
            "https://api.example/v1/%2Fx?q=%20",
            "https://[::1]:8443/?",
            "http://b\u{fc}cher.example:81/x",
        ] {
            let url = Url::parse(text).unwrap();
            let origin = Arc::new(Origin::of(&url).unwrap());
            let target = Target::of(&url, &origin).unwrap();
            assert!(Arc::ptr_eq(target.origin(), &origin));
            assert_eq!(target.url().unwrap(), url);
            assert_eq!(target.len(), url.as_str().len(), "{url}");
            assert_eq!(origin.absolute(target.path_and_query().clone()).to_string(), url.as_str());
            assert_eq!(origin.host_str(), url.host_str().unwrap());
            assert_eq!(origin.host().to_string(), url.host().unwrap().to_string());
            assert_eq!(Some(origin.port()), url.port_or_known_default());
            assert_eq!(origin.is_https(), url.scheme() == "https");
            assert_eq!((target.path(), target.query()), (url.path(), url.query()));
        }
        assert!(Origin::of(&Url::parse("ftp://127.0.0.1/").unwrap()).is_none());
        assert!(Origin::of(&Url::parse("mailto:a@b").unwrap()).is_none());
    }

    #[test]
    fn the_host_header_has_the_port_only_if_it_is_not_the_default() {
        for (url, header) in [
            ("http://h:80/", "h"),
            ("https://h:443/", "h"),
            ("http://h:443/", "h:443"),
            ("http://u:p@h:1/", "h:1"),
            ("https://[::1]/", "[::1]"),
        ] {
            assert_eq!(Origin::of(&Url::parse(url).unwrap()).unwrap().header(), header, "{url}");
        }
    }

    #[test]
    fn the_debug_form_holds_no_path() {
        let url = Url::parse("https://h/secret?key=secret").unwrap();
        let target = Target::of(&url, &Arc::new(Origin::of(&url).unwrap())).unwrap();
        assert_eq!(format!("{target:?}"), "https://h/..");
    }

    #[test]
    fn a_query_is_replaced() {
        let url = Url::parse("https://h/a?b=c").unwrap();
        let target = Target::of(&url, &Arc::new(Origin::of(&url).unwrap())).unwrap();
        assert_eq!(target.with_query(Some("d=e")).unwrap().url().unwrap().as_str(), "https://h/a?d=e");
        assert_eq!(target.with_query(None).unwrap().url().unwrap().as_str(), "https://h/a");
        assert!(target.with_query(Some("a b")).is_none());
    }
}
