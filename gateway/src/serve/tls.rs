//! The certificate of the serving listener, and those that follow it.
//!
//! A certificate is renewed while the gateway serves. So the two files are looked at every few seconds, by what they
//! hold and not by when they were written: Kubernetes swaps a link, other programs write in place. Each handshake takes
//! the newest good pair; connections that are open go on with the one that they began with. A pair that cannot be used
//! (a key of another certificate, half of a file) replaces nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// How often the files are looked at. Kubernetes takes a minute or so to bring a changed Secret into a pod.
const LOOK: Duration = Duration::from_secs(2);
/// How long what the files hold has to stay the same before it is used.
const STEADY: Duration = Duration::from_millis(200);
/// More than any chain of certificates has.
const LONGEST: u64 = 1 << 20;
/// Time for a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Where the certificate of the serving listener lies, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those between it and a root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// A certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// One of the files.
    #[error("{} cannot be read: {error}", .file.display())]
    File {
        /// Which one.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// One of the files holds something else.
    #[error("{} holds no {what} in PEM: {error}", .file.display())]
    Pem {
        /// Which one.
        file: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// Why. Nothing of what it holds.
        error: pem::Error,
    },
    /// The two do not fit each other, or one is of a kind that is not known.
    #[error("{} and {} are not a certificate and its key: {error}", .files.certificate.display(), .files.key.display())]
    Pair {
        /// Both.
        files: TlsFiles,
        /// Why.
        error: rustls::Error,
    },
}

/// The certificate of the serving listener, reloaded when its files change.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    provider: Arc<CryptoProvider>,
    shown: Arc<Shown>,
    acceptor: Acceptor,
    /// The files' contents at the first load, or just before.
    began_with: Option<Content>,
    /// Why the newest files are not in use.
    problem: ArcSwapOption<String>,
}

/// The newest good pair.
#[derive(Debug)]
struct Shown(ArcSwap<Pair>);

/// A certificate with its key.
#[derive(Debug)]
struct Pair {
    key: Arc<CertifiedKey>,
    /// When the certificate expires, in seconds since 1970; none if its date cannot be read.
    expires: Option<i64>,
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.load().key))
    }
}

/// Its `Debug` output omits the configuration.
struct Acceptor(TlsAcceptor);

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Acceptor")
    }
}

/// The digest of both files' contents.
type Content = [u8; 32];

impl Tls {
    /// Reads a certificate and its key.
    ///
    /// # Errors
    /// [`TlsError`] if they cannot be used.
    pub fn load(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        // The digest is taken before the files are read, so that a write in between is noticed as a change.
        let began_with = content(&files).ok();
        let (pair, _) = read(&files, &provider)?;
        let shown = Arc::new(Shown(ArcSwap::from_pointee(pair)));
        let unusable = |error| TlsError::Pair { files: files.clone(), error };
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&shown) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = Acceptor(TlsAcceptor::from(Arc::new(config)));
        Ok(Arc::new(Self { files, provider, shown, acceptor, began_with, problem: ArcSwapOption::empty() }))
    }

    /// Why the newest files are not in use; none if they are.
    pub(crate) fn problem(&self) -> Option<Arc<String>> {
        self.problem.load_full()
    }

    /// When the certificate in use expires, in seconds since 1970; none if its date cannot be read.
    pub(crate) fn expires(&self) -> Option<i64> {
        self.shown.0.load().expires
    }

    /// Performs the handshake of a new connection.
    pub(super) async fn accept(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        let late = |_| std::io::Error::new(std::io::ErrorKind::TimedOut, "the handshake took too long");
        tokio::time::timeout(HANDSHAKE, self.acceptor.0.accept(stream)).await.map_err(late)?
    }

    /// Reloads the files whenever they change, until `shutdown`.
    pub(super) async fn follow(&self, metrics: &Metrics, shutdown: &CancellationToken) {
        let mut seen = self.began_with;
        let follow = async {
            loop {
                tokio::time::sleep(LOOK).await;
                let now = content(&self.files).ok();
                if now == seen {
                    continue;
                }
                tokio::time::sleep(STEADY).await;
                if content(&self.files).ok() != now {
                    // The files are still being written.
                    continue;
                }
                seen = now;
                metrics.tls_reloaded(if self.renew() { "applied" } else { "failed" });
            }
        };
        tokio::select! {
            () = follow => {}
            () = shutdown.cancelled() => {}
        }
    }

    /// Reloads the files. Returns whether they can be used.
    fn renew(&self) -> bool {
        match read(&self.files, &self.provider) {
            Ok((pair, chain)) => {
                self.shown.0.store(Arc::new(pair));
                self.problem.store(None);
                tracing::info!(certificate = %self.files.certificate.display(), chain, "TLS certificate reloaded");
                true
            }
            Err(error) => {
                tracing::error!(%error, "TLS reload failed; keeping the previous certificate");
                self.problem.store(Some(Arc::new(error.to_string())));
                false
            }
        }
    }
}

/// The pair that the files hold, and how many certificates there are.
fn read(files: &TlsFiles, provider: &CryptoProvider) -> Result<(Pair, usize), TlsError> {
    let pem = |file: &Path, what| {
        let file = file.to_owned();
        move |error| TlsError::Pem { file, what, error }
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&bytes(&files.certificate)?)
        .collect::<Result<_, _>>()
        .map_err(pem(&files.certificate, "certificate"))?;
    if chain.is_empty() {
        return Err(pem(&files.certificate, "certificate")(pem::Error::NoItemsFound));
    }
    let count = chain.len();
    // Of the first: what leads from it to a root may hold one that has ended long ago, for the sake of old clients.
    let expires = chain.first().and_then(|certificate| expiry(certificate));
    let key = PrivateKeyDer::from_pem_slice(&bytes(&files.key)?).map_err(pem(&files.key, "private key"))?;
    match CertifiedKey::from_der(chain, key, provider) {
        Ok(key) => Ok((Pair { key: Arc::new(key), expires }, count)),
        Err(error) => Err(TlsError::Pair { files: files.clone(), error }),
    }
}

/// When a certificate ends, in seconds since 1970.
fn expiry(certificate: &[u8]) -> Option<i64> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

fn bytes(file: &Path) -> Result<Vec<u8>, TlsError> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .and_then(|open| open.take(LONGEST).read_to_end(&mut bytes))
        .map_err(|error| TlsError::File { file: file.to_owned(), error })?;
    Ok(bytes)
}

fn content(files: &TlsFiles) -> Result<Content, TlsError> {
    let mut hasher = Sha256::new();
    for file in [&files.certificate, &files.key] {
        let bytes = bytes(file)?;
        hasher.update(u64::try_from(bytes.len()).unwrap_or_default().to_be_bytes());
        hasher.update(bytes);
    }
    Ok(hasher.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, certificate: &str, key: &str) -> TlsFiles {
        let files = TlsFiles { certificate: folder.join("tls.crt"), key: folder.join("tls.key") };
        std::fs::write(&files.certificate, certificate).unwrap();
        std::fs::write(&files.key, key).unwrap();
        files
    }

    fn made() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn what_is_no_pair_is_refused_and_nothing_of_it_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let ((certificate, key), (other, other_key)) = (made(), made());
        let half = &key[..key.len() / 2];
        for (what, certificate, key, said) in [
            ("no certificate", "", key.as_str(), "tls.crt holds no certificate"),
            ("a key in its place", &key, &key, "tls.crt holds no certificate"),
            ("no key", &certificate, "", "tls.key holds no private key"),
            ("half of a key", &certificate, half, "tls.key holds no private key"),
            ("the key of another", &certificate, &other_key, "are not a certificate and its key"),
            ("another's certificate", &other, &key, "are not a certificate and its key"),
        ] {
            let error = Tls::load(write(folder.path(), certificate, key)).expect_err(what).to_string();
            assert!(error.contains(said), "{what}: {error}");
            let secret = key.lines().nth(1).unwrap_or("-----");
            assert!(!error.contains(secret), "{what}: {error}");
        }
        let gone = TlsFiles { certificate: folder.path().join("none"), key: folder.path().join("none") };
        assert!(Tls::load(gone).expect_err("gone").to_string().contains("none cannot be read"));
        assert!(Tls::load(write(folder.path(), &format!("{certificate}{other}"), &key)).is_ok(), "a chain");
    }

    #[test]
    fn a_bad_pair_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let ((certificate, key), (other, other_key)) = (made(), made());
        let tls = Tls::load(write(folder.path(), &certificate, &key)).unwrap();
        let first = tls.shown.0.load_full();
        write(folder.path(), &other, &key);
        assert!(!tls.renew());
        assert!(Arc::ptr_eq(&first, &tls.shown.0.load_full()));
        assert!(tls.problem().is_some_and(|said| said.contains("tls.crt")));
        write(folder.path(), &other, &other_key);
        assert!(tls.renew() && tls.problem().is_none());
        assert!(!Arc::ptr_eq(&first, &tls.shown.0.load_full()));
    }

    #[test]
    fn the_end_is_that_of_the_certificate_and_not_of_its_chain() {
        let folder = tempfile::tempdir().unwrap();
        let until = |year| {
            let key = rcgen::KeyPair::generate().unwrap();
            let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 2, 1);
            (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
        };
        // The second is beyond 2050, which is written in another way.
        let ((first, key), (second, other_key)) = (until(2031), until(2061));
        let tls = Tls::load(write(folder.path(), &format!("{first}{second}"), &key)).unwrap();
        assert_eq!(tls.expires(), Some(1_927_670_400));
        write(folder.path(), &second, &other_key);
        assert!(tls.renew());
        assert_eq!(tls.expires(), Some(2_874_441_600));
        assert_eq!(expiry(b"no certificate"), None);
    }

    #[tokio::test]
    async fn a_pair_that_comes_before_it_is_followed_is_shown_too() {
        let folder = tempfile::tempdir().unwrap();
        let ((certificate, key), (other, other_key)) = (made(), made());
        let tls = Tls::load(write(folder.path(), &certificate, &key)).unwrap();
        let first = tls.shown.0.load_full();
        // A gateway in a cluster waits for its configuration here.
        write(folder.path(), &other, &other_key);
        let (metrics, shutdown) = (Metrics::new().unwrap(), CancellationToken::new());
        let shown = async {
            while Arc::ptr_eq(&first, &tls.shown.0.load_full()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            () = tls.follow(&metrics, &shutdown) => {}
            shown = tokio::time::timeout(LOOK * 10, shown) => shown.expect("the new pair is shown"),
        }
    }
}
