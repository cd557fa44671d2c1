//! What a gateway may do: the Role that the operator writes, tried verb by verb against everything that the API server
//! serves, and every verb of it taken away to see that a gateway needs it.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role, RoleBinding, Subject};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tamis_config::names;
use tamis_tests::cluster::{ClusterGateway, TestEnv, eventually};

const GROUP: &str = "public";
const NAMESPACE: &str = "tamis-public";
const ACCOUNT: &str = "tamis-public";
const SOON: Duration = Duration::from_secs(60);
/// Questions that are asked at once.
const ASKED: usize = 32;

const READS: &[&str] = &["list", "watch"];
/// Every verb of a resource, and the one that stands for all.
const VERBS: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*"];
/// Verbs that discovery does not list.
const SPECIAL: &[(&str, &str, &str)] = &[
    ("rbac.authorization.k8s.io", "roles", "bind"),
    ("rbac.authorization.k8s.io", "roles", "escalate"),
    ("rbac.authorization.k8s.io", "clusterroles", "bind"),
    ("rbac.authorization.k8s.io", "clusterroles", "escalate"),
    ("", "users", "impersonate"),
    ("", "groups", "impersonate"),
    ("", "serviceaccounts", "impersonate"),
    ("certificates.k8s.io", "signers", "approve"),
    ("certificates.k8s.io", "signers", "sign"),
    ("*", "*", "*"),
];
/// What Kubernetes lets every account ask about itself.
const ABOUT_ITSELF: &[(&str, &str)] = &[
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

/// The Secrets of the group.
fn secrets() -> Vec<String> {
    let shards = (0..names::CREDENTIAL_SHARDS).map(|shard| names::credentials_secret(GROUP, shard));
    shards.chain([names::token_secret(GROUP), names::keys_secret(GROUP)]).collect()
}

/// A question to the authoriser. An empty namespace is all of them, an empty name is any.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Question {
    group: String,
    resource: String,
    namespace: &'static str,
    name: String,
    verb: &'static str,
}

impl Question {
    /// What the answer has to be.
    fn expected(&self) -> bool {
        let resource = (self.group.as_str(), self.resource.as_str());
        let reads = self.namespace == NAMESPACE && READS.contains(&self.verb);
        match resource {
            ("tamis.dev", "gatewayconfigs") => reads,
            ("", "secrets") => reads && secrets().contains(&self.name),
            _ => ABOUT_ITSELF.contains(&resource) && self.verb == "create",
        }
    }

    async fn answer(&self, client: Client) -> Result<bool> {
        let (resource, subresource) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
        let review: SelfSubjectAccessReview = serde_json::from_value(json!({"spec": {"resourceAttributes": {
            "group": self.group, "version": "*", "resource": resource, "subresource": subresource,
            "namespace": self.namespace, "name": self.name, "verb": self.verb,
        }}}))?;
        let answered = Api::all(client).create(&PostParams::default(), &review).await?;
        Ok(answered.status.context("an answer")?.allowed)
    }
}

/// Every group and resource that the API server serves, with subresources.
async fn served(client: &Client) -> Result<BTreeSet<(String, String)>> {
    let mut lists = vec![client.list_core_api_resources("v1").await?];
    for group in client.list_api_groups().await?.groups {
        for version in group.versions {
            lists.push(client.list_api_group_resources(&version.group_version).await?);
        }
    }
    let each = lists.into_iter().flat_map(|list| {
        let group = list.group_version.split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default();
        list.resources.into_iter().map(move |resource| (group.clone(), resource.name))
    });
    Ok(each.collect())
}

fn questions(served: &BTreeSet<(String, String)>) -> Vec<Question> {
    let mut questions = Vec::new();
    let mut ask = |group: &str, resource: &str, name: &str, verb: &'static str| {
        for namespace in [NAMESPACE, "team-a", "kube-system", ""] {
            let (group, resource, name) = (group.to_owned(), resource.to_owned(), name.to_owned());
            questions.push(Question { group, resource, namespace, name, verb });
        }
    };
    for (group, resource) in served {
        VERBS.iter().for_each(|verb| ask(group, resource, "", verb));
    }
    SPECIAL.iter().for_each(|(group, resource, verb)| ask(group, resource, "", verb));
    for name in secrets().iter().map(String::as_str).chain(["other", "tamis-other-token", "tamis-public-credentials-8"])
    {
        VERBS.iter().for_each(|verb| ask("", "secrets", name, verb));
    }
    questions
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_has_exactly_the_rights_of_its_role() -> Result<()> {
    let env = TestEnv::start().await?;
    let admin = env.cluster.client();
    the_account_has_one_role(&admin).await?;
    let gateway = env.cluster.client_of(&env.gateway_access).await?;
    let served = served(&admin).await?;
    ensure!(served.len() > 100 && served.contains(&("tamis.dev".to_owned(), "expositions/status".to_owned())));
    let questions = questions(&served);
    let asked = questions.len();
    let wrong: Vec<Question> = stream::iter(questions)
        .map(|question| {
            let client = gateway.clone();
            async move {
                let answer = question.answer(client).await?;
                anyhow::Ok((answer != question.expected()).then_some(question))
            }
        })
        .buffer_unordered(ASKED)
        .try_filter_map(async |wrong| Ok(wrong))
        .try_collect()
        .await?;
    println!("{asked} questions about {} resources", served.len());
    ensure!(wrong.is_empty(), "the opposite was expected of: {wrong:#?}");
    Ok(())
}

/// Only the group's own Role is bound to the account, and the Role has exactly these rules.
async fn the_account_has_one_role(client: &Client) -> Result<()> {
    let names_the_gateway = |subjects: Option<Vec<Subject>>| {
        let is = |subject: Subject| match subject.kind.as_str() {
            "ServiceAccount" => subject.name == ACCOUNT && subject.namespace.as_deref() == Some(NAMESPACE),
            "Group" => subject.name == format!("system:serviceaccounts:{NAMESPACE}"),
            _ => subject.name == format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}"),
        };
        subjects.into_iter().flatten().any(is)
    };
    let everywhere = Api::<ClusterRoleBinding>::all(client.clone()).list(&ListParams::default()).await?;
    ensure!(
        !everywhere.into_iter().any(|binding| names_the_gateway(binding.subjects)),
        "a ClusterRole is bound to gateways"
    );
    let bindings = Api::<RoleBinding>::all(client.clone()).list(&ListParams::default()).await?;
    let bound: Vec<_> = bindings
        .into_iter()
        .filter(|binding| names_the_gateway(binding.subjects.clone()))
        .map(|binding| (binding.metadata.namespace.unwrap_or_default(), binding.role_ref.kind, binding.role_ref.name))
        .collect();
    ensure!(bound == [(NAMESPACE.to_owned(), "Role".to_owned(), "tamis-public".to_owned())], "{bound:?}");
    let role = Api::<Role>::namespaced(client.clone(), NAMESPACE).get("tamis-public").await?;
    let wanted = json!([
        {"apiGroups": ["tamis.dev"], "resources": ["gatewayconfigs"], "verbs": READS},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": secrets(), "verbs": READS},
    ]);
    let rules = serde_json::to_value(role.rules)?;
    ensure!(rules == wanted, "{rules}");
    Ok(())
}

/// A gateway that lacks a verb says which resource it cannot read, by name where there is one.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_needs_every_verb_of_its_role() -> Result<()> {
    let env = TestEnv::start().await?;
    // It would write the Role again.
    env.operator.process.pause()?;
    let roles: Api<Role> = Api::namespaced(env.cluster.client(), NAMESPACE);
    let whole = roles.get("tamis-public").await?;
    for index in 0..whole.rules.as_ref().map_or(0, Vec::len) {
        for verb in READS {
            let mut role = whole.clone();
            role.metadata.resource_version = None;
            let rule = &mut role.rules.as_mut().context("rules")?[index];
            rule.verbs.retain(|kept| kept != verb);
            ensure!(rule.verbs.len() == 1, "{rule:?}");
            let resource =
                rule.resources.as_ref().and_then(|resources| resources.first()).context("a resource")?.clone();
            let named = rule.resource_names.clone().unwrap_or_else(|| vec![String::new()]);
            roles.replace("tamis-public", &PostParams::default(), &role).await?;
            reports_the_missing_verb(&env, &resource, &named, verb).await?;
        }
    }
    Ok(())
}

async fn reports_the_missing_verb(env: &TestEnv, resource: &str, named: &[String], verb: &'static str) -> Result<()> {
    let client = env.cluster.client_of(&env.gateway_access).await?;
    let group = if resource == "secrets" { "" } else { "tamis.dev" };
    for other in READS {
        let name = named.first().cloned().unwrap_or_default();
        let question = Question {
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: NAMESPACE,
            name,
            verb: other,
        };
        eventually("the changed Role", SOON, async || {
            Ok((question.answer(client.clone()).await? == (*other != verb)).then_some(()))
        })
        .await?;
    }
    let arguments = ["--egress-allow", "127.0.0.0/8"];
    let gateway = ClusterGateway::spawn(&env.cluster, GROUP, NAMESPACE, &env.gateway_access, &arguments)?;
    let refused = format!("cannot {verb} resource {resource}");
    for name in named {
        eventually(&format!("{refused} {name}"), SOON, async || {
            let log = gateway.process.log().replace(['\\', '"'], "");
            Ok(log.lines().any(|line| line.contains(&refused) && line.contains(name)).then_some(()))
        })
        .await
        .with_context(|| gateway.process.log())?;
    }
    Ok(())
}
