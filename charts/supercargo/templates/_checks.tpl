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
{{- range .namespaces }}{{ if has . (default list $environment.excludeNamespaces) }}{{ fail (printf "environments: %q both names and excludes the namespace %q" $environment.name .) }}{{ end }}{{ end -}}
{{- end -}}
{{- $namespaces := (include "supercargo.scope" . | fromJson).namespaces -}}
{{- if gt (len $namespaces) 50 }}
{{- fail (printf "environments: %d namespaces are named, and the agent watches at most 50 one by one; select them by namespacesRegex, for which it gets a ClusterRole" (len $namespaces)) }}
{{- end -}}
{{- if not $c.org }}{{ fail "compliance.org is empty: name the organization that is reported for" }}{{ end -}}
{{- $url := include "supercargo.baseUrl" . -}}
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
{{- if and $s.ingress.enabled (not $s.ingress.hosts) }}
{{- fail "service.ingress.hosts is empty: name a host" }}
{{- end -}}
{{- end -}}
