{{- define "millgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "millgate.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "millgate.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "millgate.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* A version may have a plus, a label may not. */}}
{{- define "millgate.chart" -}}
{{- printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "millgate.selector" -}}
app.kubernetes.io/name: {{ include "millgate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "millgate.labels" -}}
{{ include "millgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ include "millgate.chart" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "millgate.account" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "millgate.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "millgate.image" -}}
{{- $name := .Values.image.repository }}
{{- if .Values.image.registry }}
{{- $name = printf "%s/%s" .Values.image.registry $name }}
{{- end }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $name .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" $name (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* What the operator may do where it works. Secrets are read by name and, for Local brokers' keys, created; never listed. */}}
{{- define "millgate.rules" -}}
- apiGroups: [millgate.dev]
  resources: [taskqueues, topics]
  verbs: [get, list, watch]
- apiGroups: [millgate.dev] # the finalizer of deletionPolicy Delete
  resources: [taskqueues]
  verbs: [patch]
- apiGroups: [millgate.dev]
  resources: [taskqueues/status, topics/status]
  verbs: [get, patch]
- apiGroups: [millgate.dev]
  resources: [taskqueues/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [configmaps, services, serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create]
- apiGroups: [apps]
  resources: [deployments, statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, create, patch, delete]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
- apiGroups: [coordination.k8s.io] # the one by which the operator sees that its watch works
  resources: [leases]
  resourceNames: [{{ include "millgate.fullname" . }}-canary]
  verbs: [list, watch]
{{- end }}

{{/* The same where its own Leases are; no others are its business. */}}
{{- define "millgate.leases" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "millgate.fullname" . }}, {{ include "millgate.fullname" . }}-canary]
  verbs: [get, update, patch]
{{- end }}
