//! A cluster set up as by a platform team: definitions, permissions, a gateway group in its own namespace, a team's
//! namespace, and an operator and a gateway that run with their own permissions.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use serde_json::{Value, json};

use super::{Cluster, ClusterGateway, Operator, eventually};
use crate::{Era, Upstream, root};

/// Long enough for a slow and busy machine.
const SOON: Duration = Duration::from_secs(60);

/// A cluster in use. The gateway group is `tamis-public/public`, the team's namespace `team-a`.
pub struct TestEnv {
    /// The operator.
    pub operator: Operator,
    /// A gateway of the group.
    pub gateway: ClusterGateway,
    /// The upstream of the services.
    pub upstream: Upstream,
    /// The kubeconfig of operators.
    pub operator_access: PathBuf,
    /// The kubeconfig of gateways.
    pub gateway_access: PathBuf,
    /// The API server. Dropped last, because the other programs have their files in its folder.
    pub cluster: Cluster,
}

const GROUP: &str = r#"
apiVersion: tamis.dev/v1alpha1
kind: GatewayGroup
metadata: {name: public, namespace: tamis-public}
spec:
  allowedNamespaces: {from: All}
  egress: {allow: [127.0.0.0/8]}
"#;

/// The scope of an operator's permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// `deploy/rbac.yaml`: the operator reads all namespaces.
    Cluster,
    /// `deploy/namespaced/`: Roles in the two namespaces only.
    Namespaces,
}

impl Scope {
    /// Grants the operator its permissions in `tamis-public` and `team-a`.
    async fn grant(self, cluster: &Cluster) -> Result<()> {
        let read = |file: &str| std::fs::read_to_string(root().join("deploy").join(file)).context("a file of deploy/");
        for namespace in ["tamis-public", "team-a"] {
            cluster.namespace(namespace).await?;
        }
        let kind = match self {
            Self::Cluster => {
                cluster.apply(&read("rbac.yaml")?).await?;
                "clusterrole"
            }
            Self::Namespaces => {
                cluster.apply(&read("namespaced/operator.yaml")?).await?;
                let rules = read("namespaced/namespace.yaml")?;
                for namespace in ["tamis-public", "team-a"] {
                    let apply = ["-n", namespace, "apply", "--server-side", "--validate=strict", "--filename=-"];
                    cluster.kubectl(&apply, Some(&rules)).await?;
                }
                "role"
            }
        };
        for (namespace, role) in [("tamis-public", "tamis-group"), ("team-a", "tamis-secrets")] {
            let of = format!("--{kind}={role}");
            let account = "--serviceaccount=tamis-system:tamis-operator";
            cluster.kubectl(&["-n", namespace, "create", "rolebinding", role, &of, account], None).await?;
        }
        Ok(())
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Cluster => &[],
            Self::Namespaces => &["--namespace", "tamis-public", "--namespace", "team-a"],
        }
    }
}

impl TestEnv {
    /// Starts the environment. The gateway is ready and serves nothing yet.
    ///
    /// # Errors
    /// A program did not start; the message contains its log.
    pub async fn start() -> Result<Self> {
        Self::with(Scope::Cluster).await
    }

    /// [`TestEnv::start`] with an operator that watches the two namespaces and has no permissions outside them.
    ///
    /// # Errors
    /// A program did not start; the message contains its log.
    pub async fn namespaced() -> Result<Self> {
        Self::with(Scope::Namespaces).await
    }

    async fn with(scope: Scope) -> Result<Self> {
        let cluster = Cluster::start().await?;
        cluster.install_crds().await?;
        scope.grant(&cluster).await?;
        cluster.apply(GROUP).await?;
        Self::start_programs(cluster, Upstream::start().await?, scope).await
    }

    /// Starts operator and gateway on a cluster that has definitions and permissions, and has the gateway group or will
    /// get it.
    ///
    /// # Errors
    /// A program did not start; the message contains its log.
    pub async fn start_on(cluster: Cluster, upstream: Upstream) -> Result<Self> {
        Self::start_programs(cluster, upstream, Scope::Cluster).await
    }

    async fn start_programs(cluster: Cluster, upstream: Upstream, scope: Scope) -> Result<Self> {
        let operator_access = cluster.service_account("tamis-system", "tamis-operator").await?;
        // The operator needs the gateway's address, and creates its account.
        let ports = ClusterGateway::ports()?;
        let mut arguments = operator_arguments(&ports.1.url).to_vec();
        arguments.extend(scope.arguments().iter().map(|&argument| argument.to_owned()));
        let operator = Operator::start(&cluster, &operator_access, &arguments).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), "tamis-public");
        eventually("the gateways' ServiceAccount", SOON, async || Ok(accounts.get_opt("tamis-public").await?)).await?;
        let gateway_access = cluster.service_account("tamis-public", "tamis-public").await?;
        let egress = &["--egress-allow", "127.0.0.0/8"];
        let mut gateway = ClusterGateway::spawn_on(ports, &cluster, "public", "tamis-public", &gateway_access, egress)?;
        gateway.ready().await?;
        Ok(Self { operator, gateway, upstream, operator_access, gateway_access, cluster })
    }

    /// Starts another operator and waits until it is ready.
    ///
    /// # Errors
    /// The operator exited, or is not ready in time; the message contains its log.
    pub async fn another_operator(&self) -> Result<Operator> {
        let arguments = operator_arguments(&self.gateway.admin.url);
        Operator::start(&self.cluster, &self.operator_access, &arguments).await
    }

    /// Returns the manifest of the sample service in `team-a`.
    #[must_use]
    pub fn manifest(&self) -> String {
        crate::documents::manifest(&self.upstream)
            .replace("metadata: {name: tracker}", "metadata: {name: tracker, namespace: team-a}")
    }

    /// Returns an exposition of the sample service for anonymous callers, with additional fields of its `spec`.
    #[must_use]
    pub fn exposition(name: &str, spec: &Value) -> String {
        let mut document = json!({
            "apiVersion": "tamis.dev/v1alpha1",
            "kind": "Exposition",
            "metadata": {"name": name, "namespace": "team-a"},
            "spec": {"service": {"name": "tracker", "version": "1.0.0"}, "access": {"anonymous": true}},
        });
        merge(&mut document["spec"], spec);
        document.to_string()
    }

    /// Returns a filter set of the sample service.
    #[must_use]
    pub fn filters(name: &str, spec: &Value) -> String {
        let mut document = json!({
            "apiVersion": "tamis.dev/v1alpha1",
            "kind": "ToolsFilters",
            "metadata": {"name": name, "namespace": "team-a"},
            "spec": {"service": {"name": "tracker", "version": "1.0.0"}},
        });
        merge(&mut document["spec"], spec);
        document.to_string()
    }

    /// Calls `get-issue` and returns its result, or the status and text of a refusal.
    ///
    /// # Errors
    /// The gateway does not answer.
    pub async fn issue(&self, exposition: &str) -> Result<Result<Value, (u16, String)>> {
        let rpc = self.gateway.rpc("team-a", exposition, Era::Modern)?;
        let arguments = json!({"owner": "o", "repo": "r", "number": 1});
        let answer = rpc.call("get-issue", &arguments).await?;
        match answer.text_block() {
            Ok(text) => Ok(Ok(serde_json::from_str(&text)?)),
            Err(_) => Ok(Err((answer.status, answer.text))),
        }
    }

    /// Waits until the result of `get-issue` has exactly these members.
    ///
    /// # Errors
    /// It does not in time; the message contains the last answer or condition.
    pub async fn issue_has(&self, exposition: &str, members: &[&str]) -> Result<()> {
        let wanted: Vec<String> = members.iter().map(|member| (*member).to_owned()).collect();
        let last = std::cell::RefCell::new(String::new());
        let found = eventually("the answer", SOON, async || {
            let answer = self.issue(exposition).await?;
            *last.borrow_mut() = format!("{answer:?}");
            let found = answer.ok().and_then(|issue| Some(issue.as_object()?.keys().cloned().collect::<Vec<_>>()));
            Ok(found.filter(|found| *found == wanted))
        });
        found.await.map(drop).with_context(|| format!("{exposition}: wanted {wanted:?}, had {}", last.borrow()))
    }

    /// Waits until the exposition answers 503 and its status contains `text`.
    ///
    /// # Errors
    /// It does not in time.
    pub async fn issue_stopped(&self, exposition: &str, text: &str) -> Result<()> {
        let last = std::cell::RefCell::new(String::new());
        let found = eventually("the refusal", SOON, async || {
            let answer = self.issue(exposition).await?;
            *last.borrow_mut() = format!("{answer:?}");
            let stopped = answer.is_err_and(|(status, said)| status == 503 && said.contains("not available"));
            // The answer to callers omits the reason; the status contains it.
            let status = self.object("exposition", exposition).await?["status"].to_string();
            last.borrow_mut().push_str(&status);
            Ok((stopped && status.contains(text)).then_some(()))
        });
        found.await.with_context(|| format!("{exposition}: wanted 503 and {text}, had {}", last.borrow()))
    }

    /// Returns an object as `kubectl get -o json` prints it.
    ///
    /// # Errors
    /// The object does not exist.
    pub async fn object(&self, kind: &str, name: &str) -> Result<Value> {
        let text = self.cluster.kubectl(&["get", kind, name, "-n", "team-a", "-o", "json"], None).await?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Returns the status, reason and message of a condition, if it refers to the object's current generation.
    ///
    /// # Errors
    /// The object does not exist.
    pub async fn condition(&self, kind: &str, name: &str, condition: &str) -> Result<Option<(String, String, String)>> {
        let object = self.object(kind, name).await?;
        let generation = &object["metadata"]["generation"];
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|c| c["type"] == condition && c["observedGeneration"] == *generation);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(found.map(|c| (text(&c["status"]), text(&c["reason"]), text(&c["message"]))))
    }

    /// Waits until a condition has this status and reason, and returns its message.
    ///
    /// # Errors
    /// It does not in time; the message contains the last answer or condition.
    pub async fn condition_is(
        &self,
        kind: &str,
        name: &str,
        condition: &str,
        status: &str,
        reason: &str,
    ) -> Result<String> {
        let last = std::cell::RefCell::new(None);
        let found = eventually("the condition", SOON, async || {
            let found = self.condition(kind, name, condition).await?;
            last.borrow_mut().clone_from(&found);
            Ok(found.filter(|(s, r, _)| s == status && r == reason).map(|(_, _, message)| message))
        });
        found
            .await
            .with_context(|| format!("{kind}/{name}: wanted {condition} {status} {reason}, had {:?}", last.borrow()))
    }

    /// Runs `kubectl wait --for=condition=Ready`.
    ///
    /// # Errors
    /// The object is not ready in time.
    pub async fn ready(&self, kind: &str, name: &str) -> Result<()> {
        let object = format!("{kind}/{name}");
        let said = self
            .cluster
            .kubectl(&["wait", "-n", "team-a", "--for=condition=Ready", "--timeout=60s", &object], None)
            .await?;
        ensure!(said.contains("condition met"), "{said}");
        Ok(())
    }
}

/// The gateway is given together with its group, because some tests create another group.
fn operator_arguments(gateway_admin: &str) -> [String; 6] {
    let group = "tamis-public/public";
    let gateway = format!("{group}={gateway_admin}");
    ["--gateway-admin", &gateway, "--default-group", group, "--lease-namespace", "tamis-system"].map(str::to_owned)
}

fn merge(into: &mut Value, from: &Value) {
    if let (Some(into), Some(from)) = (into.as_object_mut(), from.as_object()) {
        for (key, value) in from {
            into.insert(key.clone(), value.clone());
        }
    }
}
