//! Who deletes a GatewayGroup that publishes something: nobody by accident.
//!
//! A finalizer would do it too, and would hang whoever deletes the namespace, and everybody once the operator is gone.
//! Here a refusal is an answer, and whatever goes with its namespace or its owner goes.

use serde_json::{Value as Json, json};

use super::COLLECTORS;

/// The annotation that lets a group be deleted with all that it publishes.
const ALLOW: &str = "tamis.dev/allow-deletion";

/// The policy's `spec`.
pub(super) fn spec() -> Json {
    let collectors = COLLECTORS.map(|user| format!("'{user}'")).join(", ");
    let collected = format!("request.userInfo.username in [{collectors}]");
    // Whoever empties a namespace that is being deleted, under whatever name: it could not end else. Conditions of a match
    // do not know the namespace.
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
