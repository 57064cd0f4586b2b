{{/* What the schema cannot say. Each sentence says what to do. */}}
{{- define "supercargo.checkAgent" -}}
{{- $c := .Values.compliance -}}
{{- if not .Values.environments }}
{{- fail "environments is empty: name at least one, as environments: [{name: prod}], or set agent.enabled to false" }}
{{- end -}}
{{- range $name, $of := include "supercargo.countedNames" . | fromJson }}
{{- if gt (int $of) 1 }}
{{- fail (printf "environments: the name %q is given %d times; each environment is reported once" $name (int $of)) }}
{{- end -}}
{{- end -}}
{{- range $environment := .Values.environments -}}
{{- if or (gt (len .name) 255) (ne .name (trim .name)) }}
{{- fail (printf "environments: the name %q has more than 255 bytes, or white space at an end" .name) }}
{{- end -}}
{{- range concat (default list .namespacesRegex) (default list .excludeNamespacesRegex) }}{{ $_ := mustRegexMatch . "" }}{{ end -}}
{{- range $namespace := .namespaces }}
{{- $isExcluded := has . (default list $environment.excludeNamespaces) -}}
{{- range $environment.excludeNamespacesRegex }}{{ if regexMatch . $namespace }}{{ $isExcluded = true }}{{ end }}{{ end -}}
{{- if $isExcluded }}
{{- fail (printf "environments: %q both names and excludes the namespace %q" $environment.name .) }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $names := list "SUPERCARGO_BASE_URL" "SUPERCARGO_ORG" "SUPERCARGO_TOKEN_FILE" "SUPERCARGO_LOG_FORMAT" "SUPERCARGO_POD_NAME" "SUPERCARGO_POD_UID" -}}
{{- if include "supercargo.caBundle" . }}{{ $names = append $names "SUPERCARGO_CA_FILE" }}{{ end -}}
{{- if .Values.proxy.https }}{{ $names = append $names "HTTPS_PROXY" }}{{ end -}}
{{- if .Values.proxy.all }}{{ $names = append $names "ALL_PROXY" }}{{ end -}}
{{- if include "supercargo.noProxy" . }}{{ $names = append $names "NO_PROXY" }}{{ end -}}
{{- include "supercargo.checkEnv" (list "extraEnv" .Values.extraEnv $names) -}}
{{- $namespaces := (include "supercargo.scope" . | fromJson).namespaces -}}
{{- if gt (len $namespaces) 50 }}
{{- fail (printf "environments: %d namespaces are named, and the agent watches at most 50 one by one; select them by namespacesRegex, for which it gets a ClusterRole" (len $namespaces)) }}
{{- end -}}
{{- if not $c.org }}{{ fail "compliance.org is empty: name the organization that is reported for" }}{{ end -}}
{{- $url := include "supercargo.baseUrl" . -}}
{{- include "supercargo.checkUrl" (list "compliance.baseUrl" $c.baseUrl) -}}
{{- if regexMatch "/api/v2/*$" $url }}
{{- fail (printf "compliance.baseUrl is %q: leave out /api/v2, which is added to it" $url) }}
{{- end -}}
{{- if not $url }}
{{- fail "compliance.baseUrl is empty: give the URL of the compliance service, or run it here with service.enabled" }}
{{- end -}}
{{- if and (hasPrefix "http://" $url) (not $c.allowHttp) (not (regexMatch "^http://(localhost|127\\.[0-9.]+|\\[::1\\])(:[0-9]+)?(/|$)" $url)) }}
{{- fail (printf "compliance.baseUrl would be %s, over which the token goes in the clear, and the agent refuses that: use https (service.tls for the service of this release), or set compliance.allowHttp where the network is trusted" $url) }}
{{- end -}}
{{- if and $c.token.existingSecret $c.token.value }}
{{- fail "compliance.token has both existingSecret and value: give one of them" }}
{{- end -}}
{{- if not (or $c.token.existingSecret $c.token.value) }}
{{- fail "compliance.token is empty: give existingSecret, or value" }}
{{- end -}}
{{- if gt (len (compact (list $c.caBundle.configMap $c.caBundle.secret $c.caBundle.value))) 1 }}
{{- fail "compliance.caBundle has more than one of configMap, secret and value: give one of them" }}
{{- end -}}
{{- range $key, $duration := dict "agent.interval" .Values.agent.interval "agent.debounce" .Values.agent.debounce "cronjob.timeout" .Values.cronjob.timeout }}
{{- $seconds := include "supercargo.seconds" $duration | int64 -}}
{{- if or (lt $seconds 1) (gt $seconds 86400) }}
{{- fail (printf "%s is %s: from 1s to 24h was expected" $key $duration) }}
{{- end -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) .Values.rbac.create }}
{{- fail "serviceAccount.name is empty and none is created: name the one that is to get the agent's rights, since those of \"default\" would be every pod's" }}
{{- end -}}
{{- end -}}

{{/* A URL that the program takes; what may hold a password is not shown. (list KEY URL) */}}
{{- define "supercargo.checkUrl" -}}
{{- $url := index . 1 -}}
{{- $port := "[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]" -}}
{{- if and $url (not (regexMatch (printf `^https?://(\[[0-9a-fA-F:.]+\]|[^\s/@?#:\[\]]+)(:(%s))?(/[^\s@?#]*)?$` $port) $url)) }}
{{- fail (printf "%s is %s: give a URL as https://compliance.example.com, without credentials, query and fragment" (index . 0) (contains "@" $url | ternary "not shown" (quote $url))) }}
{{- end -}}
{{- end -}}

{{/* Variables of one's own must not have the name of the chart's: of two with one name, an update that takes one out takes
     out both. (list KEY ENTRIES NAMES) */}}
{{- define "supercargo.checkEnv" -}}
{{- $key := index . 0 -}}{{- $names := index . 2 -}}
{{- range index . 1 }}
{{- if has .name $names }}{{ fail (printf "%s: the chart sets %s itself, by a value of its own" $key .name) }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* How often each environment is named, in JSON. */}}
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
{{- fail "service.bootstrap is empty: a service without an organization serves nobody; give service.bootstrap or service.existingBootstrap" }}
{{- end -}}
{{- if gt (int $given) 1 }}
{{- fail "the bootstrap file is given more than once: give one of service.bootstrap, service.existingBootstrap.configMap and service.existingBootstrap.secret" }}
{{- end -}}
{{- include "supercargo.checkEnv" (list "service.extraEnv" $s.extraEnv (list "SUPERCARGO_DATABASE" "SUPERCARGO_LOG_FORMAT" "GLIBC_TUNABLES")) -}}
{{- include "supercargo.checkUrl" (list "service.publicUrl" $s.publicUrl) -}}
{{- $name := include "supercargo.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) }}
{{- fail (printf "%s-serve cannot be the name of a Service: give fullnameOverride, of lower-case letters, digits and hyphens" $name) }}
{{- end -}}
{{- if and .Values.agent.enabled (eq (include "supercargo.serveAccount" .) (include "supercargo.serviceAccount" .)) (or $s.serviceAccount.create .Values.serviceAccount.create) }}
{{- fail "service.serviceAccount.name is the agent's: the service is to have no rights" }}
{{- end -}}
{{- if and .Values.agent.enabled $s.bootstrap (not .Values.compliance.baseUrl) }}
{{- $organizations := list -}}
{{- range $s.bootstrap.organizations }}{{ $organizations = append $organizations .name }}{{ end -}}
{{- if not (has .Values.compliance.org $organizations) }}
{{- fail (printf "service.bootstrap has no organization %q, which compliance.org reports for" .Values.compliance.org) }}
{{- end -}}
{{- end -}}
{{- if and $s.ingress.enabled (not $s.publicUrl) $s.ingress.hosts (hasPrefix "*" (first $s.ingress.hosts)) }}
{{- fail "service.publicUrl is empty, and no client reaches the host *: say where they do" }}
{{- end -}}
{{- if and $s.ingress.enabled (not $s.ingress.hosts) }}
{{- fail "service.ingress.hosts is empty: name a host" }}
{{- end -}}
{{- end -}}
