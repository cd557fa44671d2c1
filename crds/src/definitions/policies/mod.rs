//! Admission policies: rules that a schema cannot express, checked by the API server itself (CEL, no webhook).

mod cel;
mod deletion;
mod fields;
mod filters;
mod operator;
mod pods;
mod writers;

use std::fmt;
use std::str::FromStr;

use serde_json::{Value as Json, json};

/// The identities that delete objects which have lost their owner or namespace. The last one covers all controllers
/// if they share an identity.
const COLLECTORS: [&str; 3] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:kube-controller-manager",
];

/// The ServiceAccount of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceAccount {
    namespace: String,
    name: String,
}

impl Default for ServiceAccount {
    fn default() -> Self {
        Self { namespace: "tamis-system".to_owned(), name: "tamis-operator".to_owned() }
    }
}

impl ServiceAccount {
    /// Formats the account as the API server names the user of a request.
    #[must_use]
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

impl fmt::Display for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for ServiceAccount {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The name becomes part of an expression, so only characters of Kubernetes names are allowed.
        let valid = |name: &str| {
            (1..=253).contains(&name.len())
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.'))
        };
        let (namespace, name) =
            text.split_once('/').ok_or("write NAMESPACE/NAME, for example tamis-system/tamis-operator")?;
        if !valid(namespace) || !valid(name) {
            return Err("is not a valid ServiceAccount name; use a-z, 0-9, - and .");
        }
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

/// The key of a label or annotation of pods, or a domain that ends in `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodKey(String);

impl PodKey {
    /// Returns the key, or the domain with its `/`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PodKey {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The key becomes part of an expression: only characters that Kubernetes allows in keys.
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'/');
        if text.is_empty() || text.len() > 317 || text.starts_with('/') || !text.bytes().all(allowed) {
            return Err(
                "is not the key of a label or annotation; write example.com/team, or example.com/ for its domain",
            );
        }
        Ok(Self(text.to_owned()))
    }
}

/// Returns the policies, each with its binding. They require that every field is one of its kind, that a filter is
/// consistent by itself, that only operators write GatewayConfigs, that a GatewayGroup in use is not deleted by
/// accident, and that operators write only what an operator needs to.
///
/// `pod_metadata`: labels and annotations that operators may set on pods in addition to the built-in ones.
#[must_use]
pub fn policies(operators: &[ServiceAccount], pod_metadata: &[PodKey]) -> Vec<Json> {
    [
        policy("tamis-fields", &fields::spec()),
        policy("tamis-filters", &filters::spec()),
        policy("tamis-gatewayconfigs", &writers::spec(operators)),
        policy("tamis-gatewaygroups", &deletion::spec()),
        policy("tamis-operator", &operator::spec(operators, pod_metadata)),
    ]
    .concat()
}

/// Returns the user names of operators as a CEL list. The chart replaces it, as text.
fn users(operators: &[ServiceAccount]) -> String {
    let users: Vec<String> = operators.iter().map(|operator| format!("'{}'", operator.user())).collect();
    format!("[{}]", users.join(", "))
}

fn policy(name: &str, spec: &Json) -> [Json; 2] {
    let object = |kind: &str, spec: &Json| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": { "name": name, "labels": super::labels("policies") },
            "spec": spec,
        })
    };
    let binding = json!({ "policyName": name, "validationActions": ["Deny"] });
    [object("ValidatingAdmissionPolicy", spec), object("ValidatingAdmissionPolicyBinding", &binding)]
}
