//! A gateway in a cluster. Its configuration comes from the GatewayConfigs and credential Secrets that the operator
//! writes to the Kubernetes API.
//!
//! ```text
//! watch               GatewayConfigs by label, Secrets by name
//! assemble            objects and credentials -> what to serve     pure
//! credential_store    credentials by handle
//! follow              applies messages, decides, changes the gateway, acknowledges
//! reserved_addresses  addresses that no upstream may have
//! cache               the last known good set, on disk
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

/// How long the gateway waits for the API server's first list before it loads the cache on disk.
const INITIAL_LIST_TIMEOUT: Duration = Duration::from_secs(3);
/// Capacity of the queue of watch messages.
const INBOX: usize = 4_096;
/// Minimum time between two writes of the cache.
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
/// // Every existing document has been processed: serve the listeners.
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
    /// Configures the group `group` in `namespace`. With `cache`, that folder keeps the last known good set, including
    /// credentials.
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

    /// Returns the group's keys, for [`crate::Options::keyring`].
    #[must_use]
    pub fn keyring(&self) -> Arc<Keyring> {
        Arc::clone(&self.keyring)
    }

    /// Returns the group's credentials, for [`crate::Options::credentials`].
    #[must_use]
    pub fn credentials(&self) -> Arc<dyn Credentials> {
        Arc::clone(&self.credentials) as Arc<dyn Credentials>
    }

    /// Returns the group's token, for [`crate::Options::admin_token`].
    #[must_use]
    pub fn admin_token(&self) -> Arc<AdminToken> {
        Arc::clone(&self.token)
    }

    /// Applies the configuration of the group to `gateway` until `shutdown`. The first configuration is applied when
    /// the lists are complete. If the API server does not answer in time, the set on disk is applied instead.
    ///
    /// # Errors
    /// The folder of the cache cannot be created, or its permissions cannot be set.
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
            // The follower ends when the watches have ended, and the writer when the follower has. Each finishes its
            // work.
            shutdown.cancelled().await;
            watches.shutdown().await;
            let ended = follows.await;
            if let Some(writer) = writer_task {
                let _ = writer.await;
            }
            if let Err(error) = ended {
                tracing::error!(%error, "the task that applies configuration failed");
            }
        });
        Ok(Following { loaded: is_loaded, task })
    }
}

/// A source whose configuration is being applied.
#[derive(Debug)]
pub struct Following {
    loaded: latest::Receiver<bool>,
    task: JoinHandle<()>,
}

impl Following {
    /// Waits until every existing document has been processed once. Returns false if following ended before that.
    pub async fn loaded(&mut self) -> bool {
        self.loaded.wait_for(|loaded| *loaded).await.is_ok()
    }

    /// Waits until following has ended. That happens only after `shutdown`, or after a panic.
    pub async fn broken(&mut self) {
        while self.loaded.changed().await.is_ok() {}
    }

    /// Waits for the end after `shutdown`. The cache on disk is then complete.
    pub async fn ended(self) {
        let _ = self.task.await;
    }
}

/// Writes changes to the cache, at most once in [`WRITE_EVERY`].
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
            Err(error) if failing => tracing::debug!(%error, "the cache cannot be written"),
            Err(error) => {
                failing = true;
                tracing::error!(%error, "the cache cannot be written; a restart needs the API server until it can");
            }
        }
    }
}
