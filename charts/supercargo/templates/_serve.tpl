{{/* Base URL for links in responses. */}}
{{- define "supercargo.publicUrl" -}}
{{- $service := .Values.service -}}
{{- if $service.publicUrl }}{{ $service.publicUrl }}
{{- else if $service.ingress.enabled }}{{ ternary "https" "http" (gt (len $service.ingress.tls) 0) }}://{{ first $service.ingress.hosts }}
{{- else }}{{ include "supercargo.ownUrl" . }}{{ end -}}
{{- end -}}

{{/* Spec of the service's pod. */}}
{{- define "supercargo.servePod" -}}
{{- $service := .Values.service -}}
{{- $isPostgres := ne $service.database.postgresql.existingSecret "" -}}
{{- $passwordKey := ternary $service.database.postgresql.passwordKey "" $isPostgres -}}
{{- $port := ternary "https" "http" (ne $service.tls.existingSecret "") -}}
serviceAccountName: {{ printf "%s-serve" (include "supercargo.fullname" .) | quote }}
# The service does not use the API server.
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $security := deepCopy .Values.podSecurityContext }}
{{- $group := $service.database.sqlite.fsGroup }}
{{- if not (or $isPostgres (kindIs "invalid" $group) (.Capabilities.APIVersions.Has "security.openshift.io/v1")) }}
{{- $security = merge $security (dict "fsGroup" $group "fsGroupChangePolicy" "OnRootMismatch") }}
{{- end }}
{{- with $security }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
# Requests in progress get up to 20 s to finish.
terminationGracePeriodSeconds: 30
{{- with $service.priorityClassName }}
priorityClassName: {{ quote . }}
{{- end }}
containers:
  - name: serve
    image: {{ include "supercargo.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args:
      - serve
      - --listen={{ include "supercargo.listen" (list $service.bindAddress 8080) }}
      - --admin-listen={{ include "supercargo.listen" (list $service.bindAddress 8081) }}
      {{- if not $isPostgres }}
      - --database=sqlite:/var/lib/supercargo/supercargo.db
      {{- end }}
      {{- if $passwordKey }}
      - --database-password-file=/etc/supercargo-database/{{ $passwordKey }}
      {{- end }}
      - --bootstrap=/etc/supercargo/bootstrap.yaml
      - --public-url={{ include "supercargo.publicUrl" . }}
      {{- if $service.tls.existingSecret }}
      - --tls-cert=/etc/supercargo-tls/tls.crt
      - --tls-key=/etc/supercargo-tls/tls.key
      {{- end }}
      {{- if $service.signingKey.existingSecret }}
      - --signing-key=/etc/supercargo-signing/{{ $service.signingKey.key }}
      {{- end }}
      {{- with $service.allowInternal }}
      - --allow-internal={{ join "," . }}
      {{- end }}
      {{- with $service.trustedProxies }}
      - --trusted-proxies={{ join "," . }}
      {{- end }}
      {{- with $service.maxReport }}
      - --max-report={{ int64 . }}
      {{- end }}
      - --max-invalid-tokens={{ int64 $service.maxInvalidTokens }}
    env:
      - name: SUPERCARGO_LOG_FORMAT
        value: {{ $service.logFormat }}
      # Returns the memory of large bodies to the system, which avoids fragmentation beyond the limit.
      - name: GLIBC_TUNABLES
        value: glibc.malloc.mmap_threshold=131072
      {{- if $isPostgres }}
      - name: SUPERCARGO_DATABASE
        valueFrom:
          secretKeyRef:
            name: {{ quote $service.database.postgresql.existingSecret }}
            key: {{ quote $service.database.postgresql.key }}
      {{- with $service.database.postgresql.readKey }}
      - name: SUPERCARGO_DATABASE_READ
        valueFrom:
          secretKeyRef:
            name: {{ quote $service.database.postgresql.existingSecret }}
            key: {{ quote . }}
      {{- end }}
      {{- end }}
      {{- with $service.extraEnv }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- with $service.extraEnvFrom }}
    envFrom:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    ports:
      - name: {{ $port }}
        containerPort: 8080
        protocol: TCP
      - name: metrics
        containerPort: 8081
        protocol: TCP
    # Ten minutes to wait for the database and to migrate its schema.
    startupProbe:
      httpGet:
        path: /livez
        port: metrics
      periodSeconds: 5
      failureThreshold: 120
    livenessProbe:
      httpGet:
        path: /livez
        port: metrics
      timeoutSeconds: 5
    readinessProbe:
      httpGet:
        path: /readyz
        port: metrics
      timeoutSeconds: 5
    {{- with $service.resources }}
    resources:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .Values.securityContext }}
    securityContext:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    volumeMounts:
      - name: config
        mountPath: /etc/supercargo
        readOnly: true
      {{- if not $isPostgres }}
      - name: data
        mountPath: /var/lib/supercargo
      {{- end }}
      {{- if $passwordKey }}
      - name: database
        mountPath: /etc/supercargo-database
        readOnly: true
      {{- end }}
      {{- if $service.tls.existingSecret }}
      - name: tls
        mountPath: /etc/supercargo-tls
        readOnly: true
      {{- end }}
      {{- if $service.signingKey.existingSecret }}
      - name: signing
        mountPath: /etc/supercargo-signing
        readOnly: true
      {{- end }}
      {{- with $service.extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
volumes:
  # The bootstrap file and the files that it refers to, readable by any user of the pod.
  - name: config
    projected:
      defaultMode: 292 # 0444
      sources:
        {{- $existing := $service.existingBootstrap }}
        - {{ ternary "secret" "configMap" (ne $existing.secret "") }}:
            name: {{ coalesce $existing.secret $existing.configMap (printf "%s-serve" (include "supercargo.fullname" .)) | quote }}
            items:
              - {key: bootstrap.yaml, path: bootstrap.yaml}
        {{- range $service.secrets }}
        - secret:
            name: {{ quote . }}
        {{- end }}
  {{- if $passwordKey }}
  - name: database
    secret:
      secretName: {{ quote $service.database.postgresql.existingSecret }}
      defaultMode: 292 # 0444
      items:
        - {key: {{ quote $passwordKey }}, path: {{ quote $passwordKey }}}
  {{- end }}
  {{- with $service.tls.existingSecret }}
  - name: tls
    secret:
      secretName: {{ quote . }}
      defaultMode: 292 # 0444
  {{- end }}
  {{- with $service.signingKey.existingSecret }}
  - name: signing
    secret:
      secretName: {{ quote . }}
      defaultMode: 292 # 0444
  {{- end }}
  {{- if and (not $isPostgres) $service.database.sqlite.existingClaim }}
  - name: data
    persistentVolumeClaim:
      claimName: {{ quote $service.database.sqlite.existingClaim }}
  {{- end }}
  {{- with $service.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
nodeSelector:
  {{- include "supercargo.nodeSelector" $service.nodeSelector | nindent 2 }}
{{- with $service.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $service.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml $service.topologySpreadConstraints | nindent 2 }}
{{- else if $isPostgres }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "supercargo.selector" (list . "serve") | nindent 8 }}
{{- end }}
{{- with $service.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
