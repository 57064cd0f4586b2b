{{/* A name truncated to a maximum length: (list NAME MAX). A truncated name ends in a part of its hash, to stay unique. */}}
{{- define "supercargo.shortened" -}}
{{- $name := index . 0 -}}{{- $max := int (index . 1) -}}
{{- if le (len $name) $max -}}{{ $name }}
{{- else -}}{{ printf "%s-%s" ($name | trunc (int (sub $max 9)) | trimSuffix "-") ($name | sha256sum | trunc 8) }}
{{- end -}}
{{- end -}}

{{/* Prefix of object names: 40 characters, since the name of a StatefulSet, with suffix, may have 52. */}}
{{- define "supercargo.fullname" -}}
{{- $name := ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) -}}
{{- include "supercargo.shortened" (list (default $name .Values.fullnameOverride) 40) -}}
{{- end -}}

{{/* Name of objects outside the release's namespace, unique among releases of the same name. */}}
{{- define "supercargo.rbacName" -}}
{{- include "supercargo.shortened" (list (printf "%s:%s" (include "supercargo.fullname" .) .Release.Namespace) 63) -}}
{{- end -}}

{{/* Selector labels of pods, which are immutable: (list ROOT COMPONENT). */}}
{{- define "supercargo.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ quote $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* All labels of an object: (list ROOT COMPONENT). */}}
{{- define "supercargo.labels" -}}
{{- $root := index . 0 -}}
{{- $own := dict
  "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_")
  "app.kubernetes.io/version" ($root.Chart.AppVersion | replace "+" "_")
  "app.kubernetes.io/part-of" "supercargo"
  "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- toYaml (merge (include "supercargo.selector" . | fromYaml) $own $root.Values.commonLabels) -}}
{{- end -}}

{{/* Metadata of an object: (dict "root" ROOT "component" C "name" N), with optional "namespace", "labels", "annotations";
     "cluster" is true for objects without a namespace. */}}
{{- define "supercargo.metadata" -}}
metadata:
  name: {{ quote .name }}
  {{- if not .cluster }}
  namespace: {{ default .root.Release.Namespace .namespace | quote }}
  {{- end }}
  labels:
    {{- toYaml (merge (include "supercargo.labels" (list .root .component) | fromYaml) (default dict .labels)) | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Metadata of a pod: (dict "root" ROOT "component" C "labels" L "annotations" A). It has no version label, since a changed
     label replaces the pod. */}}
{{- define "supercargo.podMetadata" -}}
metadata:
  labels:
    {{- toYaml (merge (include "supercargo.selector" (list .root .component) | fromYaml) .labels .root.Values.commonLabels) | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "supercargo.image" -}}
{{- $image := .Values.image -}}
{{- $image.repository }}:{{ default .Chart.AppVersion $image.tag }}{{ with $image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/* Node selector with the operating system of the image. */}}
{{- define "supercargo.nodeSelector" -}}
{{- toYaml (merge (dict) (default dict .) (dict "kubernetes.io/os" "linux")) -}}
{{- end -}}

{{- define "supercargo.serviceAccount" -}}
{{- default (ternary (include "supercargo.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{/* ADDRESS:PORT: (list ADDRESS PORT). */}}
{{- define "supercargo.listen" -}}
{{- $address := index . 0 -}}
{{- if contains ":" $address }}[{{ $address }}]{{ else }}{{ $address }}{{ end }}:{{ index . 1 }}
{{- end -}}

{{/* Seconds of a duration such as 1h30m. */}}
{{- define "supercargo.seconds" -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9]+[hms]" . -1 -}}
{{- $unit := regexFind "[hms]" . -}}
{{- $sum = add $sum (mul (trimSuffix $unit . | int64) (get (dict "h" 3600 "m" 60 "s" 1) $unit)) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* URL of this release's service in the cluster. */}}
{{- define "supercargo.ownUrl" -}}
{{- $service := .Values.service -}}
{{ ternary "https" "http" (ne $service.tls.existingSecret "") }}://{{ include "supercargo.fullname" . }}-serve.{{ .Release.Namespace }}.svc:{{ $service.port }}
{{- end -}}

{{/* URL of the service that receives the reports. */}}
{{- define "supercargo.baseUrl" -}}
{{- if .Values.compliance.baseUrl }}{{ .Values.compliance.baseUrl }}
{{- else if .Values.service.enabled }}{{ include "supercargo.ownUrl" . }}{{ end -}}
{{- end -}}

{{/* Port of a URL, or the default of its scheme. */}}
{{- define "supercargo.port" -}}
{{- $url := urlParse . -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{- default (get (dict "http" "80" "https" "443" "socks5" "1080") $url.scheme) $port -}}
{{- end -}}

{{/* Scope of the agent's lists, as JSON; same rules as crates/agent/src/live/selection.rs. `namespaces`: all namespaces if each is
     named exactly, otherwise empty for the whole cluster. `named`: namespaces to look up, except those of environments with
     allowEmpty. `labels`: whether the labels of namespaces are read. */}}
{{- define "supercargo.scope" -}}
{{- $all := list -}}{{- $named := list -}}{{- $exact := true -}}{{- $labels := false -}}
{{- range .Values.environments -}}
{{- if or (not .namespaces) .namespacesRegex .namespaceSelector .excludeNamespaces .excludeNamespacesRegex }}{{ $exact = false }}{{ end -}}
{{- if .namespaceSelector }}{{ $labels = true }}{{ end -}}
{{- $all = concat $all (default list .namespaces) -}}
{{- if not .allowEmpty }}{{ $named = concat $named (default list .namespaces) }}{{ end -}}
{{- end -}}
{{- dict "namespaces" (ternary ($all | uniq | sortAlpha) list $exact) "named" ($named | uniq | sortAlpha) "labels" $labels | toJson -}}
{{- end -}}

{{/* NO_PROXY without empty entries, which the program rejects. */}}
{{- define "supercargo.noProxy" -}}
{{- $hosts := .Values.proxy.noProxy -}}
{{- if and .Values.service.enabled (not .Values.compliance.baseUrl) }}{{ $hosts = append $hosts (urlParse (include "supercargo.ownUrl" .)).hostname }}{{ end -}}
{{- if not .Values.proxy.forApiServer }}{{ $hosts = append $hosts "$(KUBERNETES_SERVICE_HOST)" }}{{ end -}}
{{- join "," $hosts -}}
{{- end -}}
