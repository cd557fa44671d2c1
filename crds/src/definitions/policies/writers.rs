//! Restricts writes of GatewayConfigs to the operator. A gateway serves whatever they contain.

use serde_json::{Value as Json, json};

use super::{COLLECTORS, ServiceAccount, users};

/// Returns the policy's `spec`.
pub(super) fn spec(operators: &[ServiceAccount]) -> Json {
    let users = users(operators);
    let collectors = COLLECTORS.map(|user| format!("'{user}'")).join(", ");
    // The garbage collector changes `finalizers` and `ownerReferences` before it deletes an object.
    let cel = format!(
        "request.userInfo.username in {users} || (request.userInfo.username in [{collectors}] && \
         (request.operation == 'DELETE' || (request.operation == 'UPDATE' && object.spec == oldObject.spec)))"
    );
    let message = format!(
        "'only the operator (' + {users}.join(', ') + ') writes GatewayConfigs, not ' + request.userInfo.username + \
         '; change the ServiceManifest, ToolsFilters or Exposition that it is compiled from'"
    );
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": { "resourceRules": [{
            "apiGroups": ["tamis.dev"],
            "apiVersions": ["*"],
            "resources": ["gatewayconfigs"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
        }] },
        "validations": [{
            "expression": cel,
            "message": "only the operator writes GatewayConfigs",
            "messageExpression": message,
            "reason": "Forbidden",
        }],
    })
}
