//! A gateway in a cluster: its configuration comes through the Kubernetes API, from the operator's GatewayConfigs and
//! credential Secrets.
//!
//! ```text
//! watch       GatewayConfigs by label, Secrets by name
//! assemble    objects and credentials -> what to serve     pure
//! credential_store  credentials by handle
//! follow      takes, decides, changes the gateway, acknowledges
//! reserved_addresses  addresses that no upstream may have
//! cache       the last good set on disk
//! ```

mod assemble;
mod cache;
mod credential_store;
mod follow;
mod reserved_addresses;
mod watch;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc as blocking;
use std::time::Duration;

use tokio::sync::{mpsc, watch as latest};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::admin::AdminToken;
use crate::gateway::{Gateway, Readiness};
use crate::seal::Keyring;
use crate::upstream::Credentials;

use cache::{Cache, CacheWriter, Write};
use credential_store::CredentialStore;
use follow::Follower;

/// How long the API server may take for its first list before the disk is asked.
const INITIAL_LIST_TIMEOUT: Duration = Duration::from_secs(3);
/// Messages of watches that wait to be taken.
const INBOX: usize = 4_096;
/// How often the disk is written to at most.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// Where a gateway's configuration comes from: one GatewayGroup.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use tamis_gateway::cluster::Source;
/// use tamis_gateway::{Gateway, Options};
/// use tokio_util::sync::CancellationToken;
///
/// let source = Source::new("tamis-public", "public", None);
/// let options = Options {
///     require_access: true,
///     admin_token: Some(source.admin_token()),
///     keyring: Some(source.keyring()),
///     ..Options::new(source.credentials())
/// };
/// let gateway = Gateway::new(options)?;
/// let client = kube::Client::try_default().await?;
/// let mut following = source.follow(&client, Arc::clone(&gateway), CancellationToken::new())?;
/// following.loaded().await;
/// // Everything that there is has been processed: listeners may be served.
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Source {
    namespace: String,
    group: String,
    cache: Option<PathBuf>,
    credentials: Arc<CredentialStore>,
    token: Arc<AdminToken>,
    keyring: Arc<Keyring>,
}

impl Source {
    /// The group `group` in `namespace`. With `cache` the last good set is kept in that folder, credentials included.
    #[must_use]
    pub fn new(namespace: &str, group: &str, cache: Option<PathBuf>) -> Self {
        Self {
            namespace: namespace.to_owned(),
            group: group.to_owned(),
            cache,
            credentials: Arc::default(),
            token: Arc::default(),
            keyring: Arc::default(),
        }
    }

    /// The group's keys: what [`crate::Options::keyring`] must be.
    #[must_use]
    pub fn keyring(&self) -> Arc<Keyring> {
        Arc::clone(&self.keyring)
    }

    /// The group's credentials: what [`crate::Options::credentials`] must be.
    #[must_use]
    pub fn credentials(&self) -> Arc<dyn Credentials> {
        Arc::clone(&self.credentials) as Arc<dyn Credentials>
    }

    /// The group's token: what [`crate::Options::admin_token`] must be.
    #[must_use]
    pub fn admin_token(&self) -> Arc<AdminToken> {
        Arc::clone(&self.token)
    }

    /// Gives `gateway` what the API server tells, until `shutdown`. Nothing is given before all of it has come, or
    /// before it is clear that the API server is away and there is something on disk.
    ///
    /// # Errors
    /// The folder of the cache cannot be used.
    pub fn follow(
        self,
        client: &kube::Client,
        gateway: Arc<Gateway>,
        shutdown: CancellationToken,
    ) -> io::Result<Following> {
        let Self { namespace, group, cache, credentials, token, keyring } = self;
        gateway.set_readiness(Readiness::WaitsFor("the API server".to_owned()));
        let cache = cache.map(|folder| Cache::open(&folder, &namespace, &group)).transpose()?;
        let (messages, inbox) = mpsc::channel(INBOX);
        let (loaded, is_loaded) = latest::channel(false);
        let (cache, writer_task) = match cache {
            None => (None, None),
            Some(cache) => {
                let (sender, writes) = blocking::channel();
                let writer = CacheWriter::new(cache.clone());
                (Some((cache, sender)), Some(tokio::task::spawn_blocking(move || write_cache(writer, &writes))))
            }
        };
        let mut watches = watch::start(client, &namespace, &group, &messages);
        watches.spawn(watch::initial_list_timeout(INITIAL_LIST_TIMEOUT, messages));
        watches.spawn(reserved_addresses::watch(
            client.clone(),
            Arc::clone(&gateway),
            namespace.clone(),
            group.clone(),
        ));
        let follower = Follower { gateway, credentials, token, keyring, group, cache, loaded };
        let follows = tokio::task::spawn_blocking(move || follower.run(inbox));
        let task = tokio::spawn(async move {
            // Without watches the follower ends, and without the follower the writer, each with its work done.
            shutdown.cancelled().await;
            watches.shutdown().await;
            let ended = follows.await;
            if let Some(writer) = writer_task {
                let _ = writer.await;
            }
            if let Err(error) = ended {
                tracing::error!("following the configuration ended: {error}");
            }
        });
        Ok(Following { loaded: is_loaded, task })
    }
}

/// A source that is being followed.
#[derive(Debug)]
pub struct Following {
    loaded: latest::Receiver<bool>,
    task: JoinHandle<()>,
}

impl Following {
    /// Waits until all that there is has been processed once. False where following ended before.
    pub async fn loaded(&mut self) -> bool {
        self.loaded.wait_for(|loaded| *loaded).await.is_ok()
    }

    /// Waits until nothing follows any more: only after `shutdown`, unless something broke.
    pub async fn broken(&mut self) {
        while self.loaded.changed().await.is_ok() {}
    }

    /// Waits for the end after `shutdown`: what is to be kept on disk is there.
    pub async fn ended(self) {
        let _ = self.task.await;
    }
}

/// Writes what is to be kept, at most once in a while.
fn write_cache(mut writer: CacheWriter, writes: &blocking::Receiver<Write>) {
    let mut failing = false;
    while let Ok(write) = writes.recv() {
        writer.note(write);
        let until = std::time::Instant::now() + WRITE_EVERY;
        while let Ok(write) = writes.recv_timeout(until.saturating_duration_since(std::time::Instant::now())) {
            writer.note(write);
        }
        match writer.flush() {
            Ok(()) => failing = false,
            Err(error) if failing => tracing::debug!("the cache cannot be written: {error}"),
            Err(error) => {
                failing = true;
                tracing::error!(
                    "the cache cannot be written, this gateway could not start without the API server: {error}"
                );
            }
        }
    }
}
