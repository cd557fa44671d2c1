//! The CustomResourceDefinitions of the kinds, and the admission policies that accompany them.
//!
//! A definition combines what `kube` derives from a kind (names, columns), the schema that `schemars` derives from its types,
//! converted to one that the API server accepts (`structural`), and what types cannot express (`rules`). `crds/yaml/` holds
//! the result.

mod content;
mod explain;
mod policies;
mod rules;
mod structural;
#[cfg(test)]
mod tests;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use schemars::JsonSchema;
use serde_json::{Value as Json, json};
use tamis_config::carrier::{GatewayConfig, GatewayConfigSpec};

use crate::resources::{
    ConfigurationPlan, ConfigurationPlanSpec, CustomTools, CustomToolsSpec, Exposition, ExpositionSpec,
    ExpositionStatus, GatewayGroup, GatewayGroupSpec, GatewayGroupStatus, PromptsObject, PromptsSpec, ResourceStatus,
    ResourcesObject, ResourcesSpec, ServiceManifest, ServiceManifestSpec, ToolsFilters, ToolsFiltersSpec,
};
pub use policies::{PodKey, ServiceAccount, policies};
pub(crate) use rules::{MAX_TOOLS, MAX_WORDS};
use structural::{Additions, OPEN, RULES, structural};

/// Returns the schema of every kind that people write, by the plural of the kind.
fn written_schemas() -> Vec<(String, Json)> {
    let of = |mut crd: Json| {
        let plural = crd["spec"]["names"]["plural"].as_str().unwrap_or_default().to_owned();
        (plural, crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take())
    };
    custom_resource_definitions().into_iter().map(of).filter(|(plural, _)| plural != "gatewayconfigs").collect()
}

/// Returns the CustomResourceDefinition of every kind.
#[must_use]
pub fn custom_resource_definitions() -> Vec<Json> {
    let additions = [rules::additions(), explain::additions()].concat();
    all().into_iter().map(|(crd, spec, status)| definition(crd, &spec, status, &additions)).collect()
}

/// Returns, for every kind, the derived definition and the derived schemas of `spec` and `status`.
fn all() -> [(CustomResourceDefinition, Json, Option<Json>); 9] {
    let resource = || Some(schema::<ResourceStatus>());
    [
        (ServiceManifest::crd(), schema::<ServiceManifestSpec>(), resource()),
        (ToolsFilters::crd(), schema::<ToolsFiltersSpec>(), resource()),
        (Exposition::crd(), schema::<ExpositionSpec>(), Some(schema::<ExpositionStatus>())),
        (CustomTools::crd(), schema::<CustomToolsSpec>(), resource()),
        (PromptsObject::crd(), schema::<PromptsSpec>(), resource()),
        (ResourcesObject::crd(), schema::<ResourcesSpec>(), resource()),
        (ConfigurationPlan::crd(), schema::<ConfigurationPlanSpec>(), resource()),
        (GatewayGroup::crd(), schema::<GatewayGroupSpec>(), Some(schema::<GatewayGroupStatus>())),
        (GatewayConfig::crd(), schema::<GatewayConfigSpec>(), None),
    ]
}

/// Returns the documents as one YAML stream, as `kubectl apply -f -` reads it.
#[must_use]
pub fn yaml(documents: &[Json]) -> String {
    let mut stream = String::new();
    for document in documents {
        stream.push_str("---\n");
        let options = serde_saphyr::ser_options! { compact_list_indent: false, prefer_block_scalars: true };
        serde_saphyr::to_fmt_writer_with_options(&mut stream, document, options).expect("JSON can be written as YAML");
        if !stream.ends_with('\n') {
            stream.push('\n');
        }
    }
    stream
}

fn schema<T: JsonSchema>() -> Json {
    schemars::schema_for!(T).to_value()
}

/// Labels of objects that are installed once per cluster.
fn labels(component: &str) -> Json {
    json!({
        "app.kubernetes.io/name": "tamis",
        "app.kubernetes.io/part-of": "tamis",
        "app.kubernetes.io/component": component,
    })
}

/// Completes the definition that `kube` derived with our schema and the parts that are the same for every kind.
fn definition(crd: CustomResourceDefinition, spec: &Json, status: Option<Json>, additions: &Additions) -> Json {
    let kind = crd.spec.names.kind.clone();
    let mut crd = serde_json::to_value(crd).expect("a definition is JSON");
    // Deleting a definition deletes every object of the kind, so uninstalling a chart must not do it.
    crd["metadata"]["annotations"] = json!({ "helm.sh/resource-policy": "keep" });
    crd["metadata"]["labels"] = labels("crds");
    let mut spec_schema = structural(spec, additions);
    let written_by_people = kind != "GatewayConfig";
    if written_by_people {
        structural::keep_unknown(&mut spec_schema);
    }
    let mut root = json!({
        "description": structural::prose(spec["description"].as_str().unwrap_or_default()),
        "type": "object",
        "properties": {
            "apiVersion": {
                "description": format!("`{}`.", crate::resources::API_VERSION),
                "type": "string",
            },
            "kind": { "description": format!("`{kind}`."), "type": "string" },
            // The API server describes it itself, and takes no description here.
            "metadata": { "type": "object" },
            "spec": spec_schema,
        },
        "required": ["spec"],
    });
    if written_by_people {
        root[OPEN] = true.into();
    }
    // Server-side apply turns a `spec` whose fields have all been removed into null, which is not an object. Where `{}` is a
    // complete specification, this default keeps it one. An author who writes `spec: {}` finds the same in the cluster.
    // An Exposition has no field that is always required, but it names a service or other expositions.
    let may_be_empty =
        spec["type"] == "object" && spec["required"].as_array().is_none_or(Vec::is_empty) && kind != "Exposition";
    if may_be_empty {
        root["properties"]["spec"]["default"] = json!({});
    }
    let on_object = rules::on_object(&kind);
    if !on_object.is_empty() {
        root[RULES] = on_object.into();
    }
    if let Some(status) = status {
        root["properties"]["status"] = structural(&status, additions);
        // For kstatus (helm --wait, Flux) an object without any status is ready. The default therefore says that an object
        // has been observed at no generation until the operator has seen it.
        root["properties"]["status"]["default"] = json!({ "observedGeneration": -1 });
    }
    crd["spec"]["versions"][0]["schema"] = json!({ "openAPIV3Schema": root });
    crd
}
