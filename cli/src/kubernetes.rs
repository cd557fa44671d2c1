//! Access to an API server: the service account of a pod, or a kubeconfig.

use std::error::Error as _;
use std::io;

use kube::Config;
use kube::config::KubeconfigError;

/// Returns the client configuration from the kubeconfig, or from the pod if there is none.
///
/// # Errors
/// The error names the file and the remedy. It omits the library's text, which may quote lines of the file.
pub(crate) async fn config() -> anyhow::Result<Config> {
    Config::infer().await.map_err(|error| {
        let cause = error.source().and_then(|source| source.downcast_ref());
        anyhow::Error::msg(no_access(cause, std::env::var("KUBECONFIG").ok().as_deref()))
    })
}

/// Describes why there is no access to an API server, with the remedy.
fn no_access(error: Option<&KubeconfigError>, files: Option<&str>) -> String {
    let files = files.unwrap_or("~/.kube/config");
    let view = "compare it with `kubectl config view`";
    let (problem, remedy) = match error {
        None | Some(KubeconfigError::FindPath) => return nowhere("there is no kubeconfig"),
        Some(KubeconfigError::ReadConfig(error, path)) if error.kind() == io::ErrorKind::NotFound => {
            return nowhere(&format!("kubeconfig {} does not exist", path.display()));
        }
        Some(KubeconfigError::ReadConfig(error, path)) => {
            return format!("kubeconfig {} cannot be read ({}); check its permissions", path.display(), error.kind());
        }
        Some(KubeconfigError::Parse(_)) => ("is not a valid kubeconfig".to_owned(), view),
        Some(KubeconfigError::CurrentContextNotSet) => {
            ("has no current context".to_owned(), "choose one with `kubectl config use-context NAME`")
        }
        Some(KubeconfigError::LoadContext(name)) => {
            (format!("has no context `{name}`"), "choose one with `kubectl config use-context NAME`")
        }
        Some(KubeconfigError::LoadClusterOfContext(name)) => (format!("has no cluster `{name}`"), view),
        Some(KubeconfigError::MissingClusterUrl | KubeconfigError::ParseClusterUrl(_)) => {
            ("has no valid URL for the cluster".to_owned(), "correct `server`")
        }
        Some(KubeconfigError::LoadCertificateAuthority(_)) => {
            ("names a certificate authority that cannot be read".to_owned(), "correct `certificate-authority`")
        }
        Some(KubeconfigError::LoadClientCertificate(_)) => {
            ("names a client certificate that cannot be read".to_owned(), "correct `client-certificate`")
        }
        Some(KubeconfigError::LoadClientKey(_)) => {
            ("names a client key that cannot be read".to_owned(), "correct `client-key`")
        }
        Some(_) => ("cannot be used".to_owned(), view),
    };
    format!("kubeconfig {files} {problem}; {remedy}")
}

fn nowhere(why: &str) -> String {
    format!(
        "no credentials for an API server: {why}, and this process has no service account of a pod; run in a cluster, or name \
         a kubeconfig with KUBECONFIG"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_that_cannot_be_used_is_named_with_the_remedy() {
        let io = |kind: io::ErrorKind| KubeconfigError::ReadConfig(kind.into(), "/home/x/.kube/config".into());
        let secret = kube::config::Kubeconfig::from_yaml("users: [{name: a, user: {token: [hunter2]}}]").unwrap_err();
        for (error, parts) in [
            (Some(io(io::ErrorKind::NotFound)), ["/home/x/.kube/config does not exist", "KUBECONFIG"]),
            (
                Some(io(io::ErrorKind::PermissionDenied)),
                ["/home/x/.kube/config cannot be read", "check its permissions"],
            ),
            (Some(KubeconfigError::FindPath), ["there is no kubeconfig", "run in a cluster"]),
            (None, ["there is no kubeconfig", "run in a cluster"]),
            (Some(KubeconfigError::CurrentContextNotSet), ["here.yaml has no current context", "use-context"]),
            (Some(KubeconfigError::LoadContext("a".into())), ["here.yaml has no context `a`", "use-context"]),
            (Some(KubeconfigError::LoadClusterOfContext("c".into())), ["has no cluster `c`", "kubectl config view"]),
            (Some(KubeconfigError::MissingClusterUrl), ["no valid URL", "correct `server`"]),
            (Some(KubeconfigError::KindMismatch), ["here.yaml cannot be used", "kubectl config view"]),
            (Some(secret), ["here.yaml is not a valid kubeconfig", "kubectl config view"]),
        ] {
            let said = no_access(error.as_ref(), Some("here.yaml"));
            assert!(parts.iter().all(|part| said.contains(part)), "{said}");
            assert!(!said.contains("hunter2") && !said.contains("os error"), "{said}");
        }
        assert!(no_access(Some(&KubeconfigError::CurrentContextNotSet), None).contains("~/.kube/config"));
    }
}
