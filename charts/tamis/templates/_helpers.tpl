{{/* What names begin with. */}}
{{- define "tamis.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains "tamis" .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-tamis" .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* The operator's Deployment, Service, Lease and so on. */}}
{{- define "tamis.operator" -}}
{{- include "tamis.fullname" . }}-operator
{{- end }}

{{- define "tamis.serviceAccount" -}}
{{- default (include "tamis.operator" .) .Values.serviceAccount.name }}
{{- end }}

{{/*
The labels by which the operator's pods are selected. The first two are those by which the operator's NetworkPolicies for
gateways know them: they may not differ from release to release.
*/}}
{{- define "tamis.selector" -}}
app.kubernetes.io/name: tamis
app.kubernetes.io/component: operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of everything. `component` is added where there is one. */}}
{{- define "tamis.labels" -}}
app.kubernetes.io/name: tamis
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: tamis
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/*
`metadata` of an object. Takes a dictionary: `root`, `name`, and where there are such `namespace` (of namespaced objects),
`component`, `annotations`, `labels`.
*/}}
{{- define "tamis.metadata" -}}
name: {{ .name }}
{{- with .namespace }}
namespace: {{ . }}
{{- end }}
labels:
  {{- include "tamis.labels" .root | nindent 2 }}
  {{- with .component }}
  app.kubernetes.io/component: {{ . }}
  {{- end }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (default (dict) .annotations) (default (dict) .root.Values.commonAnnotations) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The image of the operator. */}}
{{- define "tamis.image" -}}
{{- $image := .Values.image }}
{{- $name := $image.repository }}
{{- if $image.registry }}{{ $name = printf "%s/%s" $image.registry $image.repository }}{{ end }}
{{- if $image.digest }}
{{- printf "%s@%s" $name $image.digest }}
{{- else }}
{{- printf "%s:%s" $name (default .Chart.AppVersion $image.tag) }}
{{- end }}
{{- end }}

{{/* The namespace of the default group. */}}
{{- define "tamis.groupNamespace" -}}
{{- default .Release.Namespace .Values.gatewayGroup.namespace }}
{{- end }}

{{/* The port of the default group's Service, as the operator chooses it. */}}
{{- define "tamis.groupPort" -}}
{{- $listener := default (dict) .Values.gatewayGroup.spec.listener }}
{{- default (ternary 443 8080 (not (empty $listener.tls))) $listener.port }}
{{- end }}

{{/* The namespaces that the operator manages, as a JSON list; empty for all namespaces. It includes that of the default group. */}}
{{- define "tamis.watched" -}}
{{- $namespaces := .Values.watchNamespaces }}
{{- if and $namespaces .Values.gatewayGroup.create }}
{{- $namespaces = append $namespaces (include "tamis.groupNamespace" .) }}
{{- end }}
{{- $namespaces | uniq | toJson }}
{{- end }}

{{/* The namespaces in which gateways may run, as a JSON list. */}}
{{- define "tamis.groupNamespaces" -}}
{{- $namespaces := .Values.groupNamespaces }}
{{- if .Values.gatewayGroup.create }}
{{- $namespaces = append $namespaces (include "tamis.groupNamespace" .) }}
{{- end }}
{{- $namespaces | uniq | toJson }}
{{- end }}

{{/* What cannot be true at once; the schema sees one value at a time. */}}
{{- define "tamis.check" -}}
{{- $watched := include "tamis.watched" . | fromJsonArray }}
{{- if $watched }}
{{- range .Values.groupNamespaces }}
{{- if not (has . $watched) }}{{ fail (printf "groupNamespaces: the operator does not watch %s; add it to watchNamespaces" .) }}{{ end }}
{{- end }}
{{- range .Values.secretNamespaces }}
{{- if not (has . $watched) }}{{ fail (printf "secretNamespaces: the operator does not watch %s; add it to watchNamespaces" .) }}{{ end }}
{{- end }}
{{- range .Values.documentNamespaces }}
{{- if not (has . $watched) }}{{ fail (printf "documentNamespaces: the operator does not watch %s; add it to watchNamespaces" .) }}{{ end }}
{{- end }}
{{- end }}
{{- if not .Values.gatewayGroup.create }}
{{- if .Values.ingress.enabled }}{{ fail "ingress.enabled requires the default group; set gatewayGroup.create" }}{{ end }}
{{- if .Values.httpRoute.enabled }}{{ fail "httpRoute.enabled requires the default group; set gatewayGroup.create" }}{{ end }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) }}{{ fail "ingress.hosts is empty; name at least one host" }}{{ end }}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) }}{{ fail "httpRoute.parentRefs is empty; name the Gateway that the route attaches to" }}{{ end }}
{{- if and .Values.gatewayGroup.create (eq .Values.gatewayGroup.name "operator") (eq (include "tamis.groupNamespace" .) .Release.Namespace) }}
{{- fail "gatewayGroup.name: the objects of a group `operator` in the operator's namespace would clash with the operator's; choose another name" }}
{{- end }}
{{- end }}

{{/* ---- Rights. docs/rbac.md says of each line why it is there. ---- */}}

{{/* In every managed namespace: read the users' resources and the groups' objects, and write status. */}}
{{- define "tamis.rules.operator" -}}
- apiGroups: [tamis.dev]
  resources: [servicemanifests, toolsfilters, customtools, prompts, resources, configurationplans, gatewaygroups, expositions, gatewayconfigs]
  verbs: [get, list, watch]
- apiGroups: [tamis.dev]
  resources:
    - servicemanifests/status
    - toolsfilters/status
    - customtools/status
    - prompts/status
    - resources/status
    - configurationplans/status
    - gatewaygroups/status
    - expositions/status
  verbs: [patch]
- apiGroups: [""]
  resources: [pods, services, serviceaccounts]
  verbs: [get, list, watch]
- apiGroups: [apps]
  resources: [deployments, replicasets]
  verbs: [get, list, watch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, watch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{/* Where there is a group. */}}
{{- define "tamis.rules.group" -}}
- apiGroups: [tamis.dev]
  resources: [gatewayconfigs]
  verbs: [get, list, watch, create, update, delete]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, update]
- apiGroups: [""]
  resources: [services, serviceaccounts]
  verbs: [create, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [create, patch, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [create, patch, delete]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [create, patch, delete]
{{- end }}

{{/* Where Secrets take part. */}}
{{- define "tamis.rules.secrets" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch]
{{- end }}

{{/* Where manifests name ConfigMaps as the documents of APIs. */}}
{{- define "tamis.rules.documents" -}}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list, watch]
{{- end }}

{{/* The operator, as the subject of a binding. */}}
{{- define "tamis.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "tamis.serviceAccount" . }}
    namespace: {{ .Release.Namespace }}
{{- end }}
