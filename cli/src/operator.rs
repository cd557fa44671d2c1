//! `tamis operator`: reconciles the resources of a cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use tamis_crds::ObjectName;
use tamis_operator::leader::LeaseOptions;
use tamis_operator::options::{Options, Token};
use tamis_operator::quota::Quotas;
use tokio_util::sync::CancellationToken;

use crate::kubernetes;
use crate::serve::{bind, runtime, stop_signal};

/// The file in which Kubernetes stores a pod's namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// Upper limit for the size of a token file.
const TOKEN_BYTES: u64 = 16 << 10;

/// Reconcile the resources of a cluster: compile them, configure the gateways and report the status.
///
/// Connects to the API server with the credentials of its pod, or with KUBECONFIG. Several replicas may run: the leader, which
/// a Lease elects, writes, and the others keep their caches current and take over within seconds.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis operator
  # two namespaces, without rights in any other
  tamis operator --namespace team-a --namespace team-b
  tamis operator --default-group tamis-public/public \\
    --gateway-image registry.example.com/tamis:1.0.0
  # a gateway that is not a pod
  tamis operator --gateway-admin http://127.0.0.1:9091 --gateway-admin-token-file token

Exit codes:
  0  stopped by SIGINT or SIGTERM, and the Lease is released
  1  the API server cannot be reached as configured, an address is in use, or an internal failure
  2  usage error")]
pub(crate) struct Args {
    /// A namespace to watch; may be repeated [default: all].
    #[arg(long = "namespace", short = 'n', value_name = "NS", value_parser = label)]
    namespaces: Vec<String>,
    /// The base URL of the admin listener of a gateway that is not a pod; NS/GROUP=URL if there are several groups. May be
    /// repeated.
    #[arg(long, value_name = "URL", value_parser = gateway_admin)]
    gateway_admin: Vec<String>,
    /// The file with the token for the gateways of --gateway-admin. Defaults to the token of their group.
    #[arg(long, value_name = "FILE", requires = "gateway_admin")]
    gateway_admin_token_file: Option<PathBuf>,
    /// The address of /metrics, /livez and /readyz.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9090")]
    admin: String,
    /// The group of expositions that name none and whose namespace has no group `default`.
    #[arg(long, value_name = "NS/NAME", value_parser = object_name)]
    default_group: Option<ObjectName>,
    /// Manage the groups with this `controllerName`, and the groups without one.
    #[arg(long, value_name = "NAME", default_value = Options::CONTROLLER_NAME)]
    controller_name: String,
    /// The leader-election identity, which must be unique [default: the name of the pod and a random suffix].
    #[arg(long, value_name = "ID")]
    identity: Option<String>,
    /// The namespace of the Lease [default: that of the pod, or `default`].
    #[arg(long, value_name = "NS", value_parser = label)]
    lease_namespace: Option<String>,
    /// The name of the Lease. Replicas of one operator share it; several operators in one namespace need different names.
    #[arg(long, value_name = "NAME", default_value = LeaseOptions::NAME, value_parser = label)]
    lease_name: String,
    /// The image of gateways whose group sets none.
    #[arg(long, value_name = "IMAGE", env = "TAMIS_GATEWAY_IMAGE", default_value = IMAGE)]
    gateway_image: String,
    /// The maximum number of expositions per namespace.
    #[arg(long, value_name = "COUNT", default_value_t = Quotas::DEFAULT.expositions)]
    quota_expositions: usize,
    /// The maximum size of the compressed documents of a namespace's expositions. A filter set counts once for each
    /// exposition that uses it.
    #[arg(long, value_name = "BYTES", default_value_t = Quotas::DEFAULT.document_bytes)]
    quota_document_bytes: usize,
    /// The maximum size of the Secrets, in base64, that the expositions of a namespace use in one group.
    #[arg(long, value_name = "BYTES", default_value_t = Quotas::DEFAULT.credential_bytes)]
    quota_credential_bytes: usize,
    /// The maximum size of the ServiceManifests, ToolsFilters, CustomTools, Prompts and Resources of a namespace, as JSON.
    #[arg(long, value_name = "BYTES", default_value_t = Quotas::DEFAULT.source_bytes)]
    quota_source_bytes: usize,
}

const IMAGE: &str = concat!("tamis:", env!("CARGO_PKG_VERSION"));

/// Runs the operator until a signal.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(async {
        let options = options(args).await?;
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        tokio::spawn(async move {
            stop_signal().await;
            stop.cancel();
        });
        tamis_operator::run(options, shutdown).await?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn options(args: &Args) -> anyhow::Result<Options> {
    let config = kubernetes::config().await?;
    let client = kube::Client::try_from(config).context("cannot connect to the API server as configured")?;
    let own_namespace = own_namespace();
    let lease_namespace = args.lease_namespace.clone().or_else(|| own_namespace.clone());
    Ok(Options {
        client,
        namespaces: args.namespaces.clone(),
        gateway_admin: args.gateway_admin.clone(),
        gateway_admin_token: args.gateway_admin_token_file.as_ref().map(token).transpose()?,
        admin: bind(&args.admin, "--admin").await?,
        default_group: args.default_group.clone(),
        controller_name: args.controller_name.clone(),
        identity: args.identity.clone().unwrap_or_else(identity),
        lease_namespace: lease_namespace.unwrap_or_else(|| "default".to_owned()),
        lease_name: args.lease_name.clone(),
        own_namespace,
        gateway_image: args.gateway_image.clone(),
        quotas: Quotas {
            expositions: args.quota_expositions,
            document_bytes: args.quota_document_bytes,
            credential_bytes: args.quota_credential_bytes,
            source_bytes: args.quota_source_bytes,
        },
    })
}

/// Returns the namespace of the pod, or `None` outside a pod.
fn own_namespace() -> Option<String> {
    std::env::var_os("KUBERNETES_SERVICE_HOST")?;
    let named = std::env::var("POD_NAMESPACE").ok().or_else(|| std::fs::read_to_string(NAMESPACE_FILE).ok())?;
    let named = named.trim();
    (!named.is_empty()).then(|| named.to_owned())
}

/// Returns a new identity. The pod's name shows people which pod leads; the random suffix distinguishes the process from an
/// earlier one in the same pod.
fn identity() -> String {
    let named = std::env::var("POD_NAME").or_else(|_| std::env::var("HOSTNAME")).unwrap_or_default();
    let name = if named.is_empty() { "tamis" } else { &named };
    format!("{name}_{}", tamis_operator::leader::random_suffix())
}

fn token(file: &PathBuf) -> anyhow::Result<Token> {
    use std::io::Read as _;
    let context = || format!("--gateway-admin-token-file {}", file.display());
    let mut text = String::new();
    std::fs::File::open(file)
        .and_then(|open| open.take(TOKEN_BYTES).read_to_string(&mut text))
        .with_context(context)?;
    match Token::new(&text) {
        Some(token) => Ok(token),
        None => bail!("{}: must hold one token and nothing else", context()),
    }
}

/// Parses the name of a namespace or Lease, by the rules of Kubernetes.
fn label(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edges = text.starts_with('-') || text.ends_with('-');
    if text.is_empty() || text.len() > 63 || edges || !text.bytes().all(fits) {
        return Err("must be a name of at most 63 characters of a-z, 0-9 and -".to_owned());
    }
    Ok(text.to_owned())
}

fn object_name(text: &str) -> Result<ObjectName, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(ObjectName { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => Err("must be NAMESPACE/NAME".to_owned()),
    }
}

/// Parses a URL, or a group and a URL.
fn gateway_admin(text: &str) -> Result<String, String> {
    match text.split_once('=').filter(|(group, _)| !group.contains(':')) {
        Some((group, url)) => Ok(format!("{}={}", object_name(group)?, base_url(url)?)),
        None => base_url(text),
    }
}

fn base_url(text: &str) -> Result<String, String> {
    let url: http::Uri = text.parse().map_err(|_| "must be an HTTP URL such as http://127.0.0.1:9090".to_owned())?;
    let scheme = matches!(url.scheme_str(), Some("http" | "https"));
    if !scheme || url.host().is_none_or(str::is_empty) || url.query().is_some() {
        return Err("must be an HTTP URL such as http://127.0.0.1:9090".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        assert!(label("team-a").is_ok());
        for bad in ["", "-a", "a-", "A", "a/b", "a.b", &"a".repeat(64)] {
            assert!(label(bad).is_err(), "{bad}");
        }
        assert_eq!(object_name("a/b").map(|name| name.to_string()).as_deref(), Ok("a/b"));
        for bad in ["a", "/a", "a/", "a/b/c"] {
            assert!(object_name(bad).is_err(), "{bad}");
        }
        assert_eq!(base_url("http://127.0.0.1:9090/").as_deref(), Ok("http://127.0.0.1:9090"));
        assert_eq!(gateway_admin("a/b=http://c:1/").as_deref(), Ok("a/b=http://c:1"));
        assert_eq!(gateway_admin("http://c:1").as_deref(), Ok("http://c:1"));
        assert!(gateway_admin("b=http://c:1").is_err() && gateway_admin("a/b=c").is_err());
        for bad in ["127.0.0.1:9090", "ftp://a", "http://", "http://a?b", "a b"] {
            assert!(base_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_token_file_holds_one_token() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("token");
        std::fs::write(&file, "s3cret\n").expect("writes");
        let read = token(&file).expect("a token");
        assert_eq!(read.expose(), "s3cret");
        assert!(!format!("{read:?}").contains("s3cret"));
        for bad in ["", "two words", "\n"] {
            std::fs::write(&file, bad).expect("writes");
            assert!(token(&file).is_err(), "{bad:?}");
        }
    }

    /// `tamis gateway` accepts the arguments with which the operator starts it.
    #[test]
    fn gateways_understand_their_arguments() {
        use clap::Parser as _;
        use tamis_operator::group::{ChildKind, GroupInput, Settings, children};

        let spec = serde_json::json!({
            "listener": {"hostname": "mcp.example.com", "tls": {"secretRef": {"name": "front"}}},
            "egress": {"allow": ["10.1.0.0/16"], "deny": ["*.example.com"]},
            "metrics": {"detail": "Exposition"},
            "audit": {"sink": "File"},
        });
        let group = GroupInput {
            name: ObjectName { namespace: "edge".into(), name: "public".into() },
            uid: "u".into(),
            spec: std::sync::Arc::new(serde_json::from_value(spec).expect("a spec")),
            paused: false,
        };
        let children = children(&group, &Settings::new(IMAGE, None));
        let deployment = children.iter().find(|child| child.kind == ChildKind::Deployment).expect("a Deployment");
        let container = &deployment.body["spec"]["template"]["spec"]["containers"][0];
        let arguments: Vec<String> = serde_json::from_value(container["args"].clone()).expect("arguments");
        assert!(arguments.len() > 9, "{arguments:?}");
        let parsed = crate::Cli::try_parse_from([vec!["tamis".to_owned()], arguments].concat());
        assert!(parsed.is_ok(), "{}", parsed.expect_err("is wrong"));
    }

    #[test]
    fn identities_differ() {
        assert_ne!(identity(), identity());
    }
}
