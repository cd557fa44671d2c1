{{/* Labels that Helm's objects have beside those in the files. */}}
{{- define "tamis-crds.labels" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The user that a ServiceAccount is to the API server, as text of CEL. */}}
{{- define "tamis-crds.user" -}}
'system:serviceaccount:{{ .namespace }}:{{ .serviceAccount }}'
{{- end }}
