//! Restricts what the operator's own identity may write, whatever its Roles allow: a stolen token must not give
//! access to pods, other accounts or other users' objects.
//!
//! RBAC restricts kinds, not contents. This policy checks every write of the operator, and no other writes. It knows
//! the operator's kinds, and for each kind the names, owners and contents that the operator writes. Other writers'
//! changes to an object stay as they are: a field that has not changed is not the operator's doing.

use serde_json::{Value as Json, json};
use tamis_config::names::{CREDENTIAL_SHARDS, GROUP_LABEL};

use super::{PodKey, ServiceAccount, pods, users};

/// The kinds whose status the operator writes.
const STATUS: [&str; 8] = [
    "servicemanifests",
    "toolsfilters",
    "customtools",
    "prompts",
    "resources",
    "configurationplans",
    "gatewaygroups",
    "expositions",
];

/// The objects of a group, all named `tamis-GROUP`.
const CHILDREN: [&str; 8] = [
    "/serviceaccounts",
    "/services",
    "apps/deployments",
    "rbac.authorization.k8s.io/roles",
    "rbac.authorization.k8s.io/rolebindings",
    "networking.k8s.io/networkpolicies",
    "policy/poddisruptionbudgets",
    "autoscaling/horizontalpodautoscalers",
];

/// The namespaces in which no object of a group is ever written.
const CLOSED: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// Returns the policy's `spec`.
pub(super) fn spec(operators: &[ServiceAccount], pod_metadata: &[PodKey]) -> Json {
    let users = users(operators);
    let anywhere = operators.iter().map(|operator| format!("'{}': ['*']", operator.user())).collect::<Vec<_>>();
    let anywhere = format!("{{{}}}", anywhere.join(", "));
    let variables: Vec<Json> = variables(&anywhere, pod_metadata)
        .into_iter()
        .map(|(name, expression)| json!({ "name": name, "expression": expression.trim() }))
        .collect();
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": { "resourceRules": [{
            "apiGroups": ["*"],
            "apiVersions": ["*"],
            "resources": ["*/*"],
            "operations": ["*"],
        }] },
        "matchConditions": [{ "name": "is-the-operator", "expression": format!("request.userInfo.username in {users}") }],
        "variables": variables,
        "validations": [{
            "expression": "variables.problem == ''",
            "message": "the operator may not write objects of this kind",
            "messageExpression": "variables.problem",
            "reason": "Forbidden",
        }],
    })
}

fn list<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("'{item}'")).collect();
    format!("[{}]", items.join(", "))
}

/// Returns the variables. Each may use those before it.
fn variables(anywhere: &str, pod_metadata: &[PodKey]) -> Vec<(&'static str, String)> {
    let status: Vec<String> = STATUS.iter().map(|kind| format!("tamis.dev/{kind}/status")).collect();
    let status = list(status.iter().map(String::as_str));
    let children = list(CHILDREN);
    let closed = list(CLOSED);
    let shards = CREDENTIAL_SHARDS - 1;
    vec![
        ("namespaces", format!("{anywhere}[request.userInfo.username]")),
        ("place", "has(request.namespace) ? request.namespace : ''".to_owned()),
        (
            "kind",
            "request.resource.group + '/' + request.resource.resource\n\
             + (has(request.subResource) && request.subResource != '' ? '/' + request.subResource : '')"
                .to_owned(),
        ),
        ("writes", "request.operation in ['CREATE', 'UPDATE']".to_owned()),
        // The old and the new object: both have to belong to a group.
        (
            "states",
            "request.operation == 'CREATE' ? [dyn(object)]\n\
             : request.operation == 'UPDATE' ? [dyn(oldObject), dyn(object)]\n\
             : request.operation == 'DELETE' ? [dyn(oldObject)] : []"
                .to_owned(),
        ),
        // The groups that an object claims: by its owner reference, which another user may have removed, or by its
        // label.
        ("groups", format!("\
variables.states.map(o, dyn(
  (has(o.metadata.ownerReferences)
   ? o.metadata.ownerReferences.filter(r, r.kind == 'GatewayGroup' && r.apiVersion.startsWith('tamis.dev/')).map(r, r.name) : [])
  + (request.operation != 'CREATE' && has(o.metadata.labels) && '{GROUP_LABEL}' in o.metadata.labels
   ? [o.metadata.labels['{GROUP_LABEL}']] : [])))")),
        ("name", "size(variables.states) > 0 && has(variables.states[0].metadata.name) ? variables.states[0].metadata.name : ''".to_owned()),
        // How the objects of a kind are named after their group.
        ("named", format!("\
variables.groups.all(groups, groups.exists(g,
  variables.kind in {children} ? variables.name == 'tamis-' + g
  : variables.kind == '/secrets' ? variables.name == 'tamis-' + g + '-token' || variables.name == 'tamis-' + g + '-keys'
    || (variables.name.startsWith('tamis-' + g + '-credentials-') && variables.name.matches('-credentials-[0-{shards}]$'))
  : variables.name.startsWith('tamis-')))")),
        // The old object; an empty one for other requests than updates.
        ("before", "request.operation == 'UPDATE' ? dyn(oldObject) : dyn({})".to_owned()),
        ("podKeys", pods::keys(pod_metadata)),
        ("template", "\
variables.writes && variables.kind == 'apps/deployments' ? dyn(object.spec.template) : dyn({'spec': {}})".to_owned()),
        ("templateBefore", "\
request.operation == 'UPDATE' && variables.kind == 'apps/deployments' ? dyn(oldObject.spec.template) : dyn({'spec': {}})".to_owned()),
        ("pod", "dyn(variables.template.spec)".to_owned()),
        ("podBefore", "dyn(variables.templateBefore.spec)".to_owned()),
        ("specBefore", "has(variables.before.spec) ? dyn(variables.before.spec) : dyn({})".to_owned()),
        ("workload", pods::account()),
        ("fields", pods::fields()),
        ("labels", pods::metadata("labels")),
        ("annotations", pods::metadata("annotations")),
        ("rights", rights(shards)),
        ("reach", reach()),
        ("secret", "\
!(variables.writes && variables.kind == '/secrets') ? ''
: has(object.type) && !(object.type in ['Opaque', 'tamis.dev/credentials']) ? 'may not write Secrets of type ' + object.type : ''".to_owned()),
        ("problem", format!("\
variables.kind in {status} && request.operation == 'UPDATE' ? ''
: variables.kind == 'events.k8s.io/events' && variables.writes
  ? (has(object.regarding) && has(object.regarding.apiVersion) && object.regarding.apiVersion.startsWith('tamis.dev/') ? ''
     : 'the operator may write Events for Tamis kinds only')
: variables.kind == 'coordination.k8s.io/leases' && variables.writes
  ? (request.userInfo.username.startsWith('system:serviceaccount:' + variables.place + ':')
     && (variables.name == 'tamis-operator' || request.userInfo.username.endsWith(':' + variables.name)) ? ''
     : 'the operator may write only the Lease of its own namespace and name, not ' + variables.place + '/' + variables.name)
: variables.kind in {children} || variables.kind in ['/secrets', 'tamis.dev/gatewayconfigs']
  ? (!('*' in variables.namespaces || variables.place in variables.namespaces) || variables.place in {closed}
     ? 'the operator may not manage gateway groups in namespace ' + variables.place
     : request.operation == 'DELETE' && variables.kind == '/secrets' ? 'the operator may not delete Secrets'
     : !variables.named
     ? 'the operator may write only objects named after a GatewayGroup, not ' + request.resource.resource + ' ' + variables.name
     : [variables.workload, variables.fields, variables.labels, variables.annotations, variables.rights, variables.reach,
        variables.secret].filter(text, text != '')
       .map(text, 'the operator ' + text).join('; '))
: 'the operator is not allowed to ' + request.operation + ' ' + variables.kind")),
    ]
}

/// Checks that Roles grant no more than a gateway needs, and only to the gateways' account.
fn rights(shards: usize) -> String {
    format!(
        "\
variables.writes && variables.kind == 'rbac.authorization.k8s.io/roles'
  && !(has(variables.before.rules) && variables.before.rules == object.rules)
  ? (has(object.rules) && !object.rules.all(rule,
      rule.verbs.all(verb, verb in ['get', 'list', 'watch']) && has(rule.apiGroups) && has(rule.resources)
      && ((rule.apiGroups == ['tamis.dev'] && rule.resources == ['gatewayconfigs'])
        || (rule.apiGroups == [''] && rule.resources == ['secrets'] && has(rule.resourceNames) && size(rule.resourceNames) > 0
          && rule.resourceNames.all(n, n == variables.name + '-token' || n == variables.name + '-keys'
            || (n.startsWith(variables.name + '-credentials-') && n.matches('-credentials-[0-{shards}]$'))))))
     ? 'may give gateways only the rights to read their configuration' : '')
: variables.writes && variables.kind == 'rbac.authorization.k8s.io/rolebindings'
  ? (object.roleRef.kind == 'Role' && object.roleRef.name == variables.name && (!has(object.subjects) || object.subjects.all(s,
      s.kind == 'ServiceAccount' && s.name == variables.name && has(s.namespace) && s.namespace == variables.place)
      || (has(variables.before.subjects) && variables.before.subjects == object.subjects))
     ? '' : 'may bind the Role of a group to its gateways only')
: variables.writes && variables.kind == '/serviceaccounts' && has(object.metadata.annotations)
  && object.metadata.annotations.exists(key, !key.startsWith('tamis.dev/')
    && !(has(variables.before.metadata) && has(variables.before.metadata.annotations)
      && key in variables.before.metadata.annotations && variables.before.metadata.annotations[key] == object.metadata.annotations[key]))
  ? 'may not annotate ServiceAccounts, because clouds derive rights from annotations'
: ''"
    )
}

/// Checks that selectors select only the group's own pods, so that no group receives the traffic of another.
fn reach() -> String {
    format!(
        "\
!variables.writes ? ''
: variables.kind == '/services'
  ? (['ExternalName'].exists(type, has(object.spec.type) && object.spec.type == type
       && !(has(variables.specBefore.type) && variables.specBefore.type == type))
     ? 'may not create Services of type ExternalName'
     : has(object.spec.externalIPs) && size(object.spec.externalIPs) > 0
       && !(has(variables.specBefore.externalIPs) && variables.specBefore.externalIPs == object.spec.externalIPs)
     ? 'may not set external addresses'
     : !(has(object.spec.selector) && '{GROUP_LABEL}' in object.spec.selector
         && variables.name == 'tamis-' + object.spec.selector['{GROUP_LABEL}'])
       && !(has(variables.specBefore.selector) && has(object.spec.selector) && variables.specBefore.selector == object.spec.selector)
     ? 'may create Services for the pods of a group only' : '')
: variables.kind in ['networking.k8s.io/networkpolicies', 'policy/poddisruptionbudgets']
  ? ([variables.kind == 'policy/poddisruptionbudgets' ? 'selector' : 'podSelector'].all(field,
       (field in variables.specBefore && field in object.spec && variables.specBefore[field] == object.spec[field])
       || (field in object.spec && has(object.spec[field].matchLabels) && '{GROUP_LABEL}' in object.spec[field].matchLabels
           && variables.name == 'tamis-' + object.spec[field].matchLabels['{GROUP_LABEL}']))
     ? '' : 'may select the pods of a group only')
: variables.kind == 'autoscaling/horizontalpodautoscalers'
  && !(object.spec.scaleTargetRef.kind == 'Deployment' && object.spec.scaleTargetRef.name == variables.name)
  && !(has(variables.specBefore.scaleTargetRef) && variables.specBefore.scaleTargetRef == object.spec.scaleTargetRef)
  ? 'may scale the gateways of a group only'
: ''"
    )
}
