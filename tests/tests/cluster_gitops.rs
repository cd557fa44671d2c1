//! Argo CD, the real one, with a folder of Tamis' resources in Git: `examples/gitops/`, as `docs/gitops.md` describes it.
//!
//! Building Argo CD takes minutes, so this is run by `cargo xtask gitops` and else reported as ignored. There are no nodes and
//! no garbage collector here: the end-to-end run (`docs/e2e.md`) has an Application with pods.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tamis_operator::object::Kind;
use tamis_tests::cluster::{Application, ArgoCd, Cluster, Repository, TestEnv, assess, eventually};
use tamis_tests::{Era, Rpc, Upstream, root};
use tokio::task::JoinHandle;

const SOON: Duration = Duration::from_secs(60);
/// How long nothing may change; a longer one by hand: `TAMIS_GITOPS_SOAK`, in seconds.
const SOAK: Duration = Duration::from_secs(15);
const KEY: &str = "of-the-partner";
/// Where the examples say that their repository is.
const EXAMPLE_URL: &str = "https://git.example.com/platform.git";
/// All namespaced kinds that could be rewritten needlessly. Not by the category `tamis`: kubectl caches the categories
/// from before the definitions were installed.
const WATCHED: &str = "servicemanifests.tamis.dev,toolsfilters.tamis.dev,customtools.tamis.dev,\
                       prompts.tamis.dev,resources.tamis.dev,\
                       configurationplans.tamis.dev,gatewaygroups.tamis.dev,expositions.tamis.dev,\
                       gatewayconfigs.tamis.dev,secrets,serviceaccounts,roles,rolebindings,services,deployments,\
                       networkpolicies,poddisruptionbudgets";

/// A second team, whose Application is applied server-side.
const TEAM_B: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: team-b}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tamis-secrets, namespace: team-b}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tamis-secrets}
subjects: [{kind: ServiceAccount, name: tamis-operator, namespace: tamis-system}]
"#;

/// A filter that the API takes and the compiler does not.
const GOOD: &str = "list-issues:\n      select: {number: number, title: title, by: user.login}";
const BROKEN: &str =
    "list-issues:\n      select: {number: number, title: title, by: user.login}\n      compact: {item: '{{.title'}";

fn file(path: &str) -> Result<String> {
    fs::read_to_string(root().join(path)).with_context(|| path.to_owned())
}

#[test]
#[ignore = "needs Argo CD: cargo xtask gitops"]
fn the_health_check_says_what_the_operator_says() -> Result<()> {
    let ours = file("docs/argocd/argocd-cm.yaml")?;
    let none = "{apiVersion: v1, kind: ConfigMap, metadata: {name: argocd-cm, namespace: argocd}, data: {}}";
    let ready = |status: &str, generation: u64| {
        json!({"observedGeneration": generation, "conditions": [
            {"type": "Accepted", "status": "False", "observedGeneration": generation, "message": "not this"},
            {"type": "Ready", "status": status, "observedGeneration": generation, "message": "why"},
        ]})
    };
    let waiting = "Waiting for the Tamis operator";
    let cases = [
        ("no operator has looked", Value::Null, "Progressing", waiting),
        ("as the API makes it", json!({"observedGeneration": -1}), "Progressing", waiting),
        ("the edit has not been looked at", ready("True", 2), "Progressing", waiting),
        ("what was broken before the edit", ready("False", 2), "Progressing", waiting),
        ("gateways are loading it", ready("Unknown", 3), "Progressing", "why"),
        ("all is well", ready("True", 3), "Healthy", "why"),
        ("a user has to fix it", ready("False", 3), "Degraded", "why"),
    ];
    let object = |kind: &str, status: &Value| {
        let metadata = json!({"name": "one", "namespace": "team", "generation": 3});
        let mut object = json!({"apiVersion": "tamis.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": {}});
        if !status.is_null() {
            object["status"] = status.clone();
        }
        object
    };
    let expected = |health: &str, message: &str| Some((health.to_owned(), message.to_owned()));
    for (what, status, health, message) in &cases {
        assert_eq!(assess(&object("Exposition", status), &ours)?, expected(health, message), "{what}");
    }
    for kind in Kind::ALL {
        let broken = object(kind.as_str(), &ready("False", 3));
        assert_eq!(assess(&broken, &ours)?, expected("Degraded", "why"), "{kind:?}");
        // So an Application is Healthy whatever the conditions say.
        assert_eq!(assess(&broken, none)?, None, "Argo CD has a check of its own for {kind:?}");
    }
    Ok(())
}

/// The running programs, and the repository that they follow.
struct Setup {
    env: TestEnv,
    argocd: ArgoCd,
    repository: Repository,
    /// The last commit.
    revision: String,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Argo CD: cargo xtask gitops"]
async fn a_folder_in_git_is_what_is_served() -> Result<()> {
    let began = Instant::now();
    let mut setup = Setup::set().await?;
    println!("{:.1?}: everything is Healthy", began.elapsed());
    setup.nothing_changes_without_a_commit().await?;
    println!("{:.1?}: nothing has changed", began.elapsed());
    setup.the_operators_objects_are_left_alone().await?;
    setup.a_broken_filter_is_reported_and_fixed().await?;
    println!("{:.1?}: a broken filter was shown and healed", began.elapsed());
    setup.a_manual_change_is_reverted().await?;
    println!("{:.1?}: a change by hand was taken back", began.elapsed());
    setup.renaming_a_set_reveals_nothing().await?;
    println!("{:.1?}: a set was renamed", began.elapsed());
    setup.pruning_reveals_nothing().await?;
    println!("{:.1?}: a folder was pruned", began.elapsed());
    setup.deleting_the_application_deletes_all().await?;
    println!("{:.1?}: an Application was deleted", began.elapsed());
    setup.the_chart_stays_in_sync().await?;
    println!("{:.1?}: the chart is in sync", began.elapsed());
    Ok(())
}

impl Setup {
    /// `kubectl apply -f root.yaml`, and the rest comes by itself.
    async fn set() -> Result<Self> {
        let cluster = Cluster::start().await?;
        // The operator's own Application has pods: not here.
        cluster.apply(&file("deploy/rbac.yaml")?).await?;
        let argocd = ArgoCd::start(&cluster, &file("docs/argocd/argocd-cm.yaml")?).await?;
        for team in ["team-a", "team-b"] {
            cluster.namespace(team).await?;
            cluster.apply(&partners(team)).await?;
        }

        let upstream = Upstream::start().await?;
        let repository = argocd.repository("platform")?;
        write(&repository, &upstream)?;
        let revision = repository.commit("As in examples/gitops")?;
        let root = file("examples/gitops/root.yaml")?.replace(EXAMPLE_URL, &repository.url());
        cluster.apply(&in_background(&root, "")?).await?;

        // Definitions first, then the group, and without an operator it goes no further.
        let platform = argocd.becomes("tamis-platform", &revision, "Synced", "Progressing").await?;
        let group = platform.resource("GatewayGroup", "public").context("the group")?;
        ensure!(group.1 == "Progressing" && group.2 == "Waiting for the Tamis operator", "{group:?}");
        ensure!(!argocd.has_application("team-a").await?, "the wave before is not Healthy");

        let env = TestEnv::start_on(cluster, upstream).await?;
        // Argo CD may look at definitions before they are established, and then looks again minutes later by itself.
        eventually("the definitions are Healthy", SOON, async || {
            Ok((argocd.refresh("tamis-crds").await?.health() == "Healthy").then_some(()))
        })
        .await?;
        for name in ["tamis-crds", "tamis-platform", "team-a", "team-b", "tamis-root"] {
            argocd.becomes(name, &revision, "Synced", "Healthy").await?;
        }
        Ok(Self { env, argocd, repository, revision })
    }

    fn commit(&mut self, message: &str) -> Result<()> {
        self.revision = self.repository.commit(message)?;
        Ok(())
    }

    /// Waits until a team's Application is of the last commit, and in this state.
    async fn becomes(&self, name: &str, health: &str) -> Result<Application> {
        self.argocd.refresh(name).await?;
        self.argocd.becomes(name, &self.revision, "Synced", health).await
    }

    /// Waits until Argo CD calls one resource of an Application Degraded; gives its message.
    async fn degraded(&self, name: &str, kind: &str, resource: &str) -> Result<String> {
        let last = std::cell::RefCell::new(None);
        let found = eventually("the resource Degraded", SOON, async || {
            let found = self.argocd.application(name).await?.resource(kind, resource);
            last.borrow_mut().clone_from(&found);
            Ok(found
                .filter(|(sync, health, _)| sync == "Synced" && health == "Degraded")
                .map(|(_, _, message)| message))
        });
        found.await.with_context(|| format!("{kind}/{resource} of {name}: {:?}", last.borrow()))
    }

    /// Every object with its resourceVersion.
    async fn versions(&self) -> Result<BTreeMap<String, String>> {
        let mut versions = BTreeMap::new();
        for namespace in ["team-a", "team-b", "tamis-public"] {
            let text = self.env.cluster.kubectl(&["get", WATCHED, "-n", namespace, "-o", "json"], None).await?;
            let list: Value = serde_json::from_str(&text)?;
            for object in list["items"].as_array().context("items")? {
                let (kind, metadata) = (object["kind"].as_str().unwrap_or_default(), &object["metadata"]);
                let name = format!("{kind} {namespace}/{}", metadata["name"].as_str().unwrap_or_default());
                versions.insert(name, metadata["resourceVersion"].as_str().unwrap_or_default().to_owned());
            }
        }
        Ok(versions)
    }

    async fn nothing_changes_without_a_commit(&self) -> Result<()> {
        let soak = std::env::var("TAMIS_GITOPS_SOAK").ok().map(|seconds| seconds.parse().map(Duration::from_secs));
        let soak = soak.transpose()?.unwrap_or(SOAK);
        let names = ["tamis-crds", "tamis-platform", "team-a", "team-b", "tamis-root"];
        let mut operations = BTreeMap::new();
        for name in names {
            let application = self.argocd.application(name).await?;
            operations.insert(name, application.operation().0.to_owned());
        }
        let before = self.versions().await?;
        ensure!(before.keys().any(|name| name.starts_with("GatewayConfig ")), "{before:?}");
        let (began, mut rounds) = (Instant::now(), 0);
        while began.elapsed() < soak {
            for name in names {
                let application = self.argocd.refresh(name).await?;
                let state = (application.sync(), application.health());
                ensure!(state == ("Synced", "Healthy"), "{name}: {}", application.summary());
                ensure!(application.operation().0 == operations[name], "{name} was synced again");
            }
            let now = self.versions().await?;
            ensure!(
                now == before,
                "{:?}",
                now.iter().filter(|(name, v)| before.get(*name) != Some(v)).collect::<Vec<_>>()
            );
            rounds += 1;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        println!("{rounds} hard refreshes of each Application in {:.0?}", began.elapsed());

        // Status is written, and that is no reason to sync.
        let internal = self.internal("team-a")?;
        ensure!(good(&ask(&internal).await?.1), "the answer");
        eventually("what was saved", SOON, async || {
            let object = self.env.object("exposition", "github-internal").await?;
            Ok(object["status"]["saved"].is_string().then_some(()))
        })
        .await?;
        let application = self.argocd.refresh("team-a").await?;
        ensure!(application.operation().0 == operations["team-a"], "a written status led to a sync");
        Ok(())
    }

    async fn the_operators_objects_are_left_alone(&self) -> Result<()> {
        let platform = self.argocd.application("tamis-platform").await?;
        let managed = platform.object["status"]["resources"].as_array().context("resources")?.clone();
        let kinds: std::collections::BTreeSet<&str> = managed.iter().filter_map(|r| r["kind"].as_str()).collect();
        ensure!(kinds.iter().eq(&["GatewayGroup", "Namespace", "RoleBinding"]), "{kinds:?}");
        let made = self.env.cluster.kubectl(&["get", WATCHED, "-n", "tamis-public", "-o", "json"], None).await?;
        let made: Value = serde_json::from_str(&made)?;
        let mut configs = 0;
        for object in made["items"].as_array().context("items")? {
            if object["metadata"]["ownerReferences"][0]["kind"] != "GatewayGroup" {
                continue;
            }
            configs += usize::from(object["kind"] == "GatewayConfig");
            let tracking = &object["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"];
            ensure!(tracking.is_null(), "Argo CD would take it for its own: {object}");
        }
        // Two expositions of each team, and the service that they share, once.
        ensure!(configs >= 5, "{configs} GatewayConfigs");
        Ok(())
    }

    async fn a_broken_filter_is_reported_and_fixed(&mut self) -> Result<()> {
        let internal = self.internal("team-a")?;
        for team in ["team-a", "team-b"] {
            self.edit(&format!("{team}/internal.yaml"), GOOD, BROKEN)?;
            // What is in the same commit does not wait for it.
            self.edit(&format!("{team}/partner.yaml"), "title: title", "name: title")?;
        }
        self.commit("Break a filter")?;
        for team in ["team-a", "team-b"] {
            self.becomes(team, "Degraded").await?;
            let message = self.degraded(team, "ToolsFilters", "github").await?;
            let remedy = "spec.filters.list-issues.compact.item: at column 1: an action is not closed";
            ensure!(message.contains(remedy), "{message}");
            println!("ToolsFilters: {message}");
            let message = self.degraded(team, "Exposition", "github-internal").await?;
            ensure!(message.contains("last good filter"), "{message}");
            println!("Exposition: {message}");
            eventually("the partner's new filter", SOON, async || {
                let (_, text) = ask_as(&self.partner(team)?, Some(KEY)).await?;
                Ok(text.contains(r#""name":"Issue"#).then_some(()))
            })
            .await?;
        }
        ensure!(good(&ask(&internal).await?.1), "what was good before is not served");

        self.revision = self.repository.revert()?;
        for team in ["team-a", "team-b"] {
            self.becomes(team, "Healthy").await?;
        }
        ensure!(good(&ask(&internal).await?.1), "the answer");
        Ok(())
    }

    async fn a_manual_change_is_reverted(&self) -> Result<()> {
        for team in ["team-a", "team-b"] {
            let patch = r#"{"spec": {"filters": {"list-issues": {"select": {"title": null}}}}}"#;
            let edit = ["patch", "toolsfilters", "github", "--type=merge", "-n", team, "-p", patch];
            self.env.cluster.kubectl(&edit, None).await?;
            eventually("the hand's edit is taken back", SOON, async || {
                let title = "jsonpath={.spec.filters.list-issues.select.title}";
                let get = ["get", "toolsfilters", "github", "-n", team, "-o", title];
                Ok((self.env.cluster.kubectl(&get, None).await? == "title").then_some(()))
            })
            .await
            .with_context(|| team.to_owned())?;
            self.becomes(team, "Healthy").await?;
        }
        Ok(())
    }

    /// A set that an exposition names gets another object. Argo CD prunes the old one before it applies the new one: calls
    /// in between are refused, and none is answered without the filter.
    async fn renaming_a_set_reveals_nothing(&mut self) -> Result<()> {
        let caller = Caller::start(self.partner("team-a")?, Some(KEY));
        self.edit(
            "team-a/partner.yaml",
            "{name: github-partner}\nspec:\n  name: partner",
            "{name: renamed}\nspec:\n  name: partner",
        )?;
        self.commit("Rename an object")?;
        self.becomes("team-a", "Healthy").await?;
        let gone = self.env.object("toolsfilters", "github-partner").await;
        ensure!(gone.is_err(), "the old one is there");
        self.env.ready("toolsfilters", "renamed").await?;
        let seen = caller.stop();
        ensure!(seen.leaked == 0 && seen.good > 0, "{seen:?}");
        println!("renamed: {seen:?}");
        Ok(())
    }

    /// Everything of a team but its service goes at once.
    async fn pruning_reveals_nothing(&mut self) -> Result<()> {
        for team in ["team-a", "team-b"] {
            let callers = [Caller::start(self.internal(team)?, None), Caller::start(self.partner(team)?, Some(KEY))];
            self.repository.remove(&format!("{team}/internal.yaml"))?;
            self.repository.remove(&format!("{team}/partner.yaml"))?;
            self.commit("Retire what is exposed")?;
            self.becomes(team, "Healthy").await?;
            eventually("the gateway forgets them", SOON, async || {
                let answers = [ask(&self.internal(team)?).await?.0, ask(&self.partner(team)?).await?.0];
                Ok((answers == [404, 404]).then_some(()))
            })
            .await?;
            // Longer than a filter that is gone is waited for.
            tokio::time::sleep(Duration::from_secs(6)).await;
            for caller in callers {
                let seen = caller.stop();
                ensure!(seen.leaked == 0 && seen.good > 0, "{seen:?}");
                println!("pruned: {seen:?}");
            }
            let left = ["get", "expositions,toolsfilters", "-n", team, "-o", "name"];
            let left = self.env.cluster.kubectl(&left, None).await?;
            ensure!(left.is_empty(), "left: {left}");
        }
        eventually("no GatewayConfigs", SOON * 2, async || {
            let left = ["get", "gatewayconfigs", "-A", "-o", "name"];
            Ok(self.env.cluster.kubectl(&left, None).await?.is_empty().then_some(()))
        })
        .await
    }

    async fn deleting_the_application_deletes_all(&mut self) -> Result<()> {
        self.repository.remove("apps/team-a.yaml")?;
        self.commit("Team A leaves")?;
        self.argocd.refresh("tamis-root").await?;
        eventually("the Application is gone", SOON, async || {
            Ok((!self.argocd.has_application("team-a").await?).then_some(()))
        })
        .await?;
        let left = self.versions().await?;
        let left: Vec<&String> = left.keys().filter(|name| name.contains(" team-a/")).collect();
        // What Argo CD did not apply there: the Secret, and the rights that the platform gives.
        ensure!(left == ["RoleBinding team-a/tamis-secrets", "Secret team-a/partners"], "left: {left:?}");
        self.env.cluster.kubectl(&["get", "namespace", "team-a"], None).await.map(drop)
    }

    /// The operator's chart: all of it but what needs pods.
    async fn the_chart_stays_in_sync(&self) -> Result<()> {
        let document = file("examples/gitops/apps/operator.yaml")?.replace(EXAMPLE_URL, &self.repository.url());
        self.env.cluster.apply(&document).await?;
        let before = self.argocd.becomes("tamis", &self.revision, "Synced", "Progressing").await?;
        let deployment = before.resource("Deployment", "tamis-operator").context("the operator")?;
        ensure!(deployment.1 == "Progressing", "{deployment:?}");
        for _ in 0..5 {
            let application = self.argocd.refresh("tamis").await?;
            ensure!(application.sync() == "Synced", "{}", application.summary());
            ensure!(application.operation().0 == before.operation().0, "it was synced again");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }

    fn edit(&self, path: &str, from: &str, to: &str) -> Result<()> {
        let text = self.repository.read(path)?;
        ensure!(text.contains(from), "{path} has no `{from}`");
        self.repository.write(path, &text.replace(from, to))
    }

    fn internal(&self, team: &str) -> Result<Rpc> {
        self.env.gateway.rpc(team, "github-internal", Era::Modern)
    }

    fn partner(&self, team: &str) -> Result<Rpc> {
        self.env.gateway.rpc(team, "github-partner", Era::Modern)
    }
}

/// The examples, with a second team, and where the test has things.
fn write(repository: &Repository, upstream: &Upstream) -> Result<()> {
    for folder in ["apps", "platform", "team-a"] {
        for entry in fs::read_dir(root().join("examples/gitops").join(folder))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).context("a file's name")?.to_owned();
            let text = fs::read_to_string(&path)?;
            let text = text.replace(EXAMPLE_URL, &repository.url()).replace("https://api.github.com", &upstream.url);
            match (folder, name.as_str()) {
                // Without nodes its pods never start; the operator is a process here.
                ("apps", "operator.yaml") => {}
                // The sample upstream is on loopback.
                ("platform", "group.yaml") => {
                    repository.write("platform/group.yaml", &(text + "  egress: {allow: [127.0.0.0/8]}\n"))?;
                }
                ("apps", "team-a.yaml") => {
                    repository.write("apps/team-a.yaml", &in_background(&text, "")?)?;
                    let text = in_background(&text, ", ServerSideApply=true")?.replace("team-a", "team-b");
                    repository.write("apps/team-b.yaml", &text)?;
                }
                ("team-a", _) => {
                    repository.write(&format!("team-a/{name}"), &text)?;
                    repository.write(&format!("team-b/{name}"), &text)?;
                }
                _ => repository.write(&format!("{folder}/{name}"), &text)?,
            }
        }
    }
    repository.write("platform/team-b.yaml", TEAM_B)?;
    repository.copy("charts", "charts")
}

/// An Application that does not wait for the garbage collector, which is not here, and with further options.
fn in_background(application: &str, options: &str) -> Result<String> {
    let automated = "automated: {prune: true, selfHeal: true}";
    ensure!(application.contains(automated), "no {automated} in {application}");
    let background = format!("{automated}\n    syncOptions: [PrunePropagationPolicy=background{options}]");
    let finalizer = "resources-finalizer.argocd.argoproj.io";
    Ok(application.replace(automated, &background).replace(finalizer, &format!("{finalizer}/background")))
}

/// The Secret that does not come from Git.
fn partners(team: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": "partners", "namespace": team, "labels": {"tamis.dev/credentials": "callers"},
        },
        "stringData": {"alice": format!("sha256:{}", tamis_config::Digest::of(KEY.as_bytes()))},
    })
    .to_string()
}

/// Status and text of an answer.
async fn ask_as(rpc: &Rpc, key: Option<&str>) -> Result<(u16, String)> {
    let params = json!({"name": "list-issues", "arguments": {"owner": "o", "repo": "r"}});
    let mut request = rpc.request("tools/call", params);
    if let Some(key) = key {
        request = request.bearer_auth(key);
    }
    let answer = rpc.send(request).await?;
    Ok((answer.status, answer.text))
}

async fn ask(rpc: &Rpc) -> Result<(u16, String)> {
    ask_as(rpc, None).await
}

/// Whether an answer is what the internal set makes of it.
fn good(text: &str) -> bool {
    text.contains("ada") && !leaks(text)
}

/// What every filter removes.
fn leaks(text: &str) -> bool {
    text.contains("REMOVED")
}

/// What a caller has seen.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    good: usize,
    refused: usize,
    leaked: usize,
}

/// Calls all the time.
struct Caller {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

impl Caller {
    fn start(rpc: Rpc, key: Option<&'static str>) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            loop {
                let answer = ask_as(&rpc, key).await;
                {
                    let mut seen = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    match answer {
                        Ok((_, text)) if leaks(&text) => seen.leaked += 1,
                        Ok((200, text)) if !text.contains(r#""isError":true"#) => seen.good += 1,
                        _ => seen.refused += 1,
                    }
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        });
        Self { seen, task }
    }

    fn stop(self) -> Seen {
        self.task.abort();
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
