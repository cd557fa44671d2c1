//! Who writes GatewayConfigs: the operator. A gateway serves whatever they say.

use serde_json::{Value as Json, json};

use super::{COLLECTORS, ServiceAccount, users};

/// The policy's `spec`.
pub(super) fn spec(operators: &[ServiceAccount]) -> Json {
    let users = users(operators);
    let collectors = COLLECTORS.map(|user| format!("'{user}'")).join(", ");
    // The collector changes `finalizers` and `ownerReferences` before an object goes.
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
