{{/* Checks that the schema cannot express. Each message says how to fix the values. */}}
{{- define "supercargo.checkAgent" -}}
{{- $c := .Values.compliance -}}
{{- if not .Values.environments }}
{{- fail "environments is empty: add at least one, such as [{name: prod}], or set agent.enabled to false" }}
{{- end -}}
{{- range $name, $count := include "supercargo.countedNames" . | fromJson }}
{{- if gt (int $count) 1 }}
{{- fail (printf "environments: duplicate name %q (%d times): names must be unique" $name (int $count)) }}
{{- end -}}
{{- end -}}
{{- range $environment := .Values.environments -}}
{{- range concat (default list .namespacesRegex) (default list .excludeNamespacesRegex) }}{{ $_ := mustRegexMatch . "" }}{{ end -}}
{{- range $namespace := .namespaces }}
{{- $isExcluded := has . (default list $environment.excludeNamespaces) -}}
{{- range $environment.excludeNamespacesRegex }}{{ if regexMatch . $namespace }}{{ $isExcluded = true }}{{ end }}{{ end -}}
{{- if $isExcluded }}
{{- fail (printf "environments: %q both includes and excludes the namespace %q" $environment.name .) }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $names := list "SUPERCARGO_BASE_URL" "SUPERCARGO_ORG" "SUPERCARGO_TOKEN_FILE" "SUPERCARGO_LOG_FORMAT" "SUPERCARGO_POD_NAME" "SUPERCARGO_POD_UID" -}}
{{- if include "supercargo.caBundle" . }}{{ $names = append $names "SUPERCARGO_CA_FILE" }}{{ end -}}
{{- if .Values.proxy.https }}{{ $names = append $names "HTTPS_PROXY" }}{{ end -}}
{{- if include "supercargo.noProxy" . }}{{ $names = append $names "NO_PROXY" }}{{ end -}}
{{- include "supercargo.checkEnv" (list "extraEnv" .Values.extraEnv $names) -}}
{{- $namespaces := (include "supercargo.scope" . | fromJson).namespaces -}}
{{- if gt (len $namespaces) 50 }}
{{- fail (printf "environments: %d namespaces are named, but the agent watches at most 50 individually: select them with namespacesRegex, which requires a ClusterRole" (len $namespaces)) }}
{{- end -}}
{{- if not $c.org }}{{ fail "compliance.org is empty: set the organization name" }}{{ end -}}
{{- $url := include "supercargo.baseUrl" . -}}
{{- include "supercargo.checkUrl" (list "compliance.baseUrl" $c.baseUrl) -}}
{{- if regexMatch "/api/v2/*$" $url }}
{{- fail (printf "compliance.baseUrl is %q: remove /api/v2, which the agent appends" $url) }}
{{- end -}}
{{- if not $url }}
{{- fail "compliance.baseUrl is empty: set the URL of the compliance service, or set service.enabled to install it" }}
{{- end -}}
{{- if and (hasPrefix "http://" $url) (not $c.allowHttp) (not (regexMatch "^http://(localhost|127\\.[0-9.]+|\\[::1\\])(:[0-9]+)?(/|$)" $url)) }}
{{- fail (printf "compliance.baseUrl is %s, which would send the token unencrypted: use https (service.tls for the service of this release), or set compliance.allowHttp in a trusted network" $url) }}
{{- end -}}
{{- $tokens := compact (list $c.token.projected.audience $c.token.existingSecret) -}}
{{- if gt (len $tokens) 1 }}
{{- fail "compliance.token has both projected.audience and existingSecret: set only one" }}
{{- end -}}
{{- if not $tokens }}
{{- fail "compliance.token is empty: set projected.audience or existingSecret" }}
{{- end -}}
{{- if and $c.caBundle.configMap $c.caBundle.secret }}
{{- fail "compliance.caBundle has both configMap and secret: set only one" }}
{{- end -}}
{{- range $key, $duration := dict "agent.interval" .Values.agent.interval "agent.debounce" .Values.agent.debounce }}
{{- $seconds := include "supercargo.seconds" $duration | int64 -}}
{{- if or (lt $seconds 1) (gt $seconds 86400) }}
{{- fail (printf "%s is %s: expected 1s to 24h" $key $duration) }}
{{- end -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) .Values.rbac.create }}
{{- fail "serviceAccount.name is empty and serviceAccount.create is false: set the name of an account; permissions for \"default\" would apply to every pod" }}
{{- end -}}
{{- end -}}

{{/* Checks a URL as the program does, and redacts one that may contain a password: (list KEY URL). */}}
{{- define "supercargo.checkUrl" -}}
{{- $url := index . 1 -}}
{{- $port := "[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]" -}}
{{- if and $url (not (regexMatch (printf `^https?://(\[[0-9a-fA-F:.]+\]|[^\s/@?#:\[\]]+)(:(%s))?(/[^\s@?#]*)?$` $port) $url)) }}
{{- fail (printf "%s is %s: expected a URL such as https://compliance.example.com, without credentials, query or fragment" (index . 0) (contains "@" $url | ternary "redacted" (quote $url))) }}
{{- end -}}
{{- end -}}

{{/* Rejects duplicates of the chart's variables: an update that removes one of two variables with one name removes both.
     (list KEY ENTRIES NAMES) */}}
{{- define "supercargo.checkEnv" -}}
{{- $key := index . 0 -}}{{- $names := index . 2 -}}
{{- range index . 1 }}
{{- if has .name $names }}{{ fail (printf "%s: the chart already sets %s from another value: remove it" $key .name) }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* Number of entries for each environment name, as JSON. */}}
{{- define "supercargo.countedNames" -}}
{{- $counts := dict -}}
{{- range .Values.environments }}{{ $_ := set $counts .name (add 1 (get $counts .name | default 0)) }}{{ end -}}
{{- toJson $counts -}}
{{- end -}}

{{- define "supercargo.checkService" -}}
{{- $s := .Values.service -}}
{{- $given := len (compact (list $s.existingBootstrap.configMap $s.existingBootstrap.secret)) -}}
{{- if $s.bootstrap }}{{ $given = add1 $given }}{{ end -}}
{{- if eq (int $given) 0 }}
{{- fail "service.bootstrap is empty: the service needs an organization; set service.bootstrap or service.existingBootstrap" }}
{{- end -}}
{{- if gt (int $given) 1 }}
{{- fail "more than one bootstrap file: set only one of service.bootstrap, service.existingBootstrap.configMap and service.existingBootstrap.secret" }}
{{- end -}}
{{- include "supercargo.checkEnv" (list "service.extraEnv" $s.extraEnv (list "SUPERCARGO_DATABASE" "SUPERCARGO_DATABASE_READ" "SUPERCARGO_LOG_FORMAT" "GLIBC_TUNABLES")) -}}
{{- include "supercargo.checkUrl" (list "service.publicUrl" $s.publicUrl) -}}
{{- $name := include "supercargo.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) }}
{{- fail (printf "invalid Service name %s-serve: set fullnameOverride with lower-case letters, digits and hyphens, starting with a letter" $name) }}
{{- end -}}
{{- if and .Values.agent.enabled $s.bootstrap (not .Values.compliance.baseUrl) }}
{{- $organizations := list -}}
{{- range $s.bootstrap.organizations }}{{ $organizations = append $organizations .name }}{{ end -}}
{{- if not (has .Values.compliance.org $organizations) }}
{{- fail (printf "service.bootstrap has no organization %q, which compliance.org names: add it, or correct compliance.org" .Values.compliance.org) }}
{{- end -}}
{{- end -}}
{{- if and $s.ingress.enabled (not $s.publicUrl) $s.ingress.hosts (hasPrefix "*" (first $s.ingress.hosts)) }}
{{- fail "service.publicUrl is empty and the first ingress host is a wildcard: set service.publicUrl" }}
{{- end -}}
{{- if and $s.ingress.enabled (not $s.ingress.hosts) }}
{{- fail "service.ingress.hosts is empty: add a host" }}
{{- end -}}
{{- end -}}
