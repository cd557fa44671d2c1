//! The Kubernetes API itself, published by its own OpenAPI document: a real API, called with a token of its own.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use tamis_tests::cluster::Cluster;
use tamis_tests::documents::Folder;
use tamis_tests::{Gateway, Options, binary};

const SHARED: &str = "apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: names}
spec:
  name: names
  service: {name: kubernetes, version: '1'}
  enforcement: Enforced
  filters:
    listCoreV1NamespacedConfigMap: {root: /items, select: {name: metadata.name, data: data}}
    createCoreV1NamespacedConfigMap: {root: '', select: {name: metadata.name}}
    listCoreV1NamespacedSecret: {root: /items, select: {name: metadata.name}}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: kubernetes}
spec: {service: {name: kubernetes, version: '1'}, filters: [names]}
";

/// A token that may read and create ConfigMaps of the namespace `default`, and nothing else.
async fn token(cluster: &Cluster) -> Result<String> {
    let client = cluster.client();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let account = serde_json::from_value(json!({"metadata": {"name": "reader"}}))?;
    accounts.create(&PostParams::default(), &account).await?;
    let role = json!({"metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "create"]}]});
    let binding = json!({"metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}]});
    let roles: Api<k8s_openapi::api::rbac::v1::Role> = Api::namespaced(client.clone(), "default");
    roles.create(&PostParams::default(), &serde_json::from_value(role)?).await?;
    let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> = Api::namespaced(client, "default");
    bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
    let request = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
    let answer = accounts.create_token_request("reader", &PostParams::default(), &request).await?;
    answer.status.map(|status| status.token).context("no token")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_is_called_by_its_own_description() -> Result<()> {
    let cluster = Cluster::start().await?;
    let folder = Folder::new()?;
    let document = cluster.client().request_text(http_get("/openapi/v3/api/v1")?).await?;
    let config = Kubeconfig::read_from(cluster.kubeconfig())?;
    let server = config.clusters.first().and_then(|named| named.cluster.as_ref()).context("a cluster")?;
    let url = server.server.as_deref().context("its address")?;
    let described = tempfile::tempdir()?;
    let path = described.path().join("api-v1.json");
    fs::write(&path, &document)?;
    let include = ["listCoreV1NamespacedConfigMap", "createCoreV1NamespacedConfigMap", "listCoreV1NamespacedSecret"];
    let mut import = Command::new(binary("tamis")?);
    import.args(["import", "openapi"]).arg(&path).args(["--name", "kubernetes", "--version", "1", "--base-url", url]);
    import.args(include.iter().flat_map(|name| ["--include", *name])).arg("-o").arg(folder.path());
    let output = import.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // What the document says of authentication is a header that any value may have.
    let manifest = format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: kubernetes}}\nspec:\n  version: '1'\n  openapi:\n    \
         file: kubernetes.openapi.json\n    baseUrl: {url}\n    auth: {{type: bearer, secretRef: {{name: api, key: token}}}}\n"
    );
    folder.replace("kubernetes.yaml", &manifest)?;
    folder.write("shared.yaml", SHARED)?;
    let authority = server.certificate_authority.clone().context("its authority")?;
    let options = Options {
        environment: vec![
            ("TAMIS_SECRET_API_TOKEN".to_owned(), token(&cluster).await?),
            ("SSL_CERT_FILE".to_owned(), authority),
        ],
        ..Options::default()
    };
    let gateway = Gateway::with(folder.path(), &options).await?;
    let rpc = gateway.rpc("kubernetes")?;

    let created = json!({"namespace": "default", "metadata": {"name": "made-by-a-model"}, "data": {"a": "1.10"}});
    let text = rpc.call("createCoreV1NamespacedConfigMap", &created).await?.text_block()?;
    ensure!(text == r#"{"name":"made-by-a-model"}"#, "{text}");
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "default");
    let found = maps.get("made-by-a-model").await?;
    ensure!(found.data.is_some_and(|data| data["a"] == "1.10"), "the API server has another object");

    let listed = rpc.call("listCoreV1NamespacedConfigMap", &json!({"namespace": "default"})).await?.text_block()?;
    let listed: Value = serde_json::from_str(&listed)?;
    let made = listed["items"].as_array().and_then(|all| all.iter().find(|one| one["name"] == "made-by-a-model"));
    ensure!(made == Some(&json!({"name": "made-by-a-model", "data": {"a": "1.10"}})), "{listed}");
    ensure!(!listed.to_string().contains("managedFields"), "{listed}");

    // The token decides what can be read, as for everyone else.
    let refused = rpc.call("listCoreV1NamespacedSecret", &json!({"namespace": "default"})).await?.message()?;
    ensure!(refused["result"]["isError"] == true && refused.to_string().contains("403"), "{refused}");
    Ok(())
}

/// A GET of a path of the API server.
fn http_get(path: &str) -> Result<axum::http::Request<Vec<u8>>> {
    Ok(axum::http::Request::get(path).body(Vec::new())?)
}
