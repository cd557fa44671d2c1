//! Prevents the accidental deletion of a GatewayGroup that publishes expositions.
//!
//! A finalizer could do this too, but would block the deletion of the namespace, and every deletion once the operator
//! is uninstalled. A policy answers with a refusal, and lets objects go with their namespace or owner.

use serde_json::{Value as Json, json};

use super::COLLECTORS;

/// The annotation that allows deleting a group with everything that it publishes.
const ALLOW: &str = "tamis.dev/allow-deletion";

/// Returns the policy's `spec`.
pub(super) fn spec() -> Json {
    let collectors = COLLECTORS.map(|user| format!("'{user}'")).join(", ");
    let collected = format!("request.userInfo.username in [{collectors}]");
    // A namespace that is being deleted must be emptied, under any user name, or its deletion never ends. Match
    // conditions cannot see the namespace.
    let leaving = "has(namespaceObject.metadata.deletionTimestamp)";
    let attached = "has(oldObject.status) && has(oldObject.status.attachedExpositions) ? \
                    oldObject.status.attachedExpositions : 0";
    let allowed = format!(
        "has(oldObject.metadata.annotations) && '{ALLOW}' in oldObject.metadata.annotations && \
         oldObject.metadata.annotations['{ALLOW}'] == 'true'"
    );
    let message = format!(
        "'GatewayGroup ' + oldObject.metadata.name + ' publishes ' + string(variables.attached) + \
         ' expositions; delete them first, or annotate the group with {ALLOW}=true'"
    );
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": { "resourceRules": [{
            "apiGroups": ["tamis.dev"],
            "apiVersions": ["*"],
            "resources": ["gatewaygroups"],
            "operations": ["DELETE"],
        }] },
        "matchConditions": [{ "name": "by-hand", "expression": format!("!({collected})") }],
        "variables": [{ "name": "attached", "expression": attached }],
        "validations": [{
            "expression": format!("variables.attached == 0 || {leaving} || ({allowed})"),
            "message": format!("the GatewayGroup publishes expositions; delete them first, or annotate it with {ALLOW}=true"),
            "messageExpression": message,
            "reason": "Forbidden",
        }],
    })
}
