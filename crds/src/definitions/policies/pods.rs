//! Restricts what an operator may write into the pods of a group, to a list of the fields that a gateway needs, with
//! the values that a `GatewayGroup` can lead to. Fields that are not listed are rejected, including those that a
//! later Kubernetes adds.
//!
//! A field that existed before with the same value is not the operator's doing, and passes.

use super::PodKey;

/// The domains of labels and annotations that configure monitoring, meshes and autoscalers. The chart extends the
/// list.
///
/// Keys of clouds and of network plugins are absent on purpose: they attach identities and networks to a pod.
const POD_KEYS: [&str; 9] = [
    "prometheus.io/",
    "ad.datadoghq.com/",
    "linkerd.io/",
    "config.linkerd.io/",
    "sidecar.istio.io/",
    "proxy.istio.io/",
    "traffic.sidecar.istio.io/",
    "cluster-autoscaler.kubernetes.io/",
    "karpenter.sh/",
];

/// Fields of a pod that may have any value: they place the pod, or restrict it.
const FREE: [&str; 9] = [
    "serviceAccountName",
    "serviceAccount",
    "automountServiceAccountToken",
    "enableServiceLinks",
    "terminationGracePeriodSeconds",
    "topologySpreadConstraints",
    "affinity",
    "nodeSelector",
    "tolerations",
];

/// Fields of a container that may have any value.
const CONTAINER_FREE: [&str; 6] =
    ["name", "image", "imagePullPolicy", "args", "terminationMessagePath", "terminationMessagePolicy"];

fn list(items: &[&str]) -> String {
    let items: Vec<String> = items.iter().map(|item| format!("'{item}'")).collect();
    format!("[{}]", items.join(", "))
}

/// Returns keys and prefixes of labels and annotations as a CEL list.
pub(super) fn keys(more: &[PodKey]) -> String {
    let all: Vec<&str> = POD_KEYS.into_iter().chain(more.iter().map(PodKey::as_str)).collect();
    list(&all)
}

/// Checks that pods run under the group's own account.
pub(super) fn account() -> String {
    "\
!(variables.writes && variables.kind == 'apps/deployments') ? ''
: !(has(variables.pod.serviceAccountName) && (variables.pod.serviceAccountName == variables.name
    || (has(variables.podBefore.serviceAccountName) && variables.podBefore.serviceAccountName == variables.pod.serviceAccountName)))
  ? 'may run the pods of a group under their own ServiceAccount only, ' + variables.name
: ''"
    .to_owned()
}

/// Checks the labels or annotations of the pod template.
pub(super) fn metadata(field: &str) -> String {
    // A label of an older Azure plugin binds an identity; every other key without a domain belongs to the user.
    let plain = match field {
        "labels" => "(!key.contains('/') && key != 'aadpodidbinding') || key.startsWith('app.kubernetes.io/') || ",
        _ => "",
    };
    format!(
        "\
!(has(variables.template.metadata) && has(variables.template.metadata.{field})) ? ''
: variables.template.metadata.{field}.exists(key, !(
    {plain}key.startsWith('tamis.dev/')
    || variables.podKeys.exists(known, key == known || (known.endsWith('/') && key.startsWith(known)))
    || (has(variables.templateBefore.metadata) && has(variables.templateBefore.metadata.{field})
      && key in variables.templateBefore.metadata.{field}
      && variables.templateBefore.metadata.{field}[key] == variables.template.metadata.{field}[key])))
  ? 'may not write these {field} on the pods of a group; allowed are {field} of ' + variables.podKeys.join(', ')
: ''"
    )
}

/// Checks the fields of the pod and of its containers.
pub(super) fn fields() -> String {
    let container = container();
    format!(
        "\
[variables.pod.filter(f, !(
   f in {free}
   || (f == 'restartPolicy' && variables.pod[f] == 'Always')
   || (f == 'dnsPolicy' && variables.pod[f] == 'ClusterFirst')
   || (f == 'schedulerName' && variables.pod[f] == 'default-scheduler')
   || (f == 'priorityClassName' && !variables.pod[f].startsWith('system-'))
   || (f == 'imagePullSecrets' && variables.pod[f].all(s, s.all(k, k == 'name')))
   || (f == 'securityContext' && variables.pod[f].all(k,
        k == 'runAsNonRoot' ? variables.pod[f][k] == true
        : k == 'seccompProfile' && variables.pod[f][k] == {{'type': 'RuntimeDefault'}}))
   || (f == 'volumes' && variables.pod[f].all(v,
        (f in variables.podBefore && variables.podBefore[f].exists(b, b == v))
        || v.all(k, k == 'name'
          || (k == 'emptyDir' && v[k].all(m, m in ['medium', 'sizeLimit']))
          || (k == 'secret' && 'items' in v[k] && size(v[k]['items']) > 0
            && v[k].all(m, m in ['secretName', 'items', 'defaultMode', 'optional'])
            && v[k]['items'].all(i, i.key in ['tls.crt', 'tls.key'] && i.all(m, m in ['key', 'path', 'mode']))))))
   || f == 'containers'
   || (f in variables.podBefore && variables.podBefore[f] == variables.pod[f])))
 + ('containers' in variables.pod
   ? variables.pod.containers.filter(c, !('containers' in variables.podBefore && variables.podBefore.containers.exists(b, b == c)))
     .map(c, c.filter(k, !({container}
       || ('containers' in variables.podBefore && variables.podBefore.containers.exists(b, b.name == c.name && k in b && b[k] == c[k])))))
     .filter(bad, size(bad) > 0).map(bad, 'containers.' + bad.join(', containers.'))
   : [])
 + ('containers' in variables.pod && !variables.pod.containers.all(c,
     c.name == 'gateway' || ('containers' in variables.podBefore && variables.podBefore.containers.exists(b, b.name == c.name)))
   ? ['containers other than `gateway`'] : [])
 + ('containers' in variables.pod && !variables.pod.containers.all(c, {confined}
     || ('containers' in variables.podBefore && variables.podBefore.containers.exists(b, b.name == c.name
       && (('securityContext' in b) ? 'securityContext' in c && b.securityContext == c.securityContext : !('securityContext' in c)))))
   ? ['a container that may gain privileges'] : [])
].map(bad, size(bad) == 0 ? '' : 'may not give the pods of a group fields that a gateway does not need: ' + bad.join(', '))[0]",
        free = list(&FREE),
        confined = CONFINED.trim(),
    )
}

/// Whether the container `c` cannot gain privileges.
const CONFINED: &str = "
(has(c.securityContext)
       && has(c.securityContext.allowPrivilegeEscalation) && c.securityContext.allowPrivilegeEscalation == false
       && has(c.securityContext.runAsNonRoot) && c.securityContext.runAsNonRoot == true
       && has(c.securityContext.capabilities) && c.securityContext.capabilities == {'drop': ['ALL']})
";

/// Whether the field `k` of the container `c` has a value that a gateway needs.
fn container() -> String {
    format!(
        "k in {free}
       || (k == 'env' && c[k].all(e, e.all(m, m in ['name', 'value']
            || (m == 'valueFrom' && e[m].all(s, s == 'fieldRef' && e[m][s].fieldPath == 'metadata.namespace')))))
       || (k == 'ports' && c[k].all(p, p.all(m, m in ['name', 'containerPort', 'protocol'])))
       || (k == 'resources' && c[k].all(m, m in ['requests', 'limits'] && c[k][m].all(r, r in ['cpu', 'memory'])))
       || (k == 'volumeMounts' && c[k].all(v, v.all(m, m in ['name', 'mountPath', 'readOnly'])))
       || (k in ['startupProbe', 'livenessProbe', 'readinessProbe'] && c[k].all(m,
            m in ['initialDelaySeconds', 'periodSeconds', 'timeoutSeconds', 'failureThreshold', 'successThreshold']
            || (m == 'httpGet' && c[k][m].all(h, h in ['path', 'port', 'scheme']))))
       || (k == 'securityContext' && c[k].all(m,
            m in ['runAsNonRoot', 'readOnlyRootFilesystem'] ? c[k][m] == true
            : m in ['privileged', 'allowPrivilegeEscalation'] ? c[k][m] == false
            : m == 'capabilities' ? c[k][m] == {{'drop': ['ALL']}}
            : m == 'seccompProfile' && c[k][m] == {{'type': 'RuntimeDefault'}}))",
        free = list(&CONTAINER_FREE),
    )
}
