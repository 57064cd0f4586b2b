{{/* Spec of the agent's pod, which watches, or reports once and exits: (dict "root" ROOT "how" "watch"|"once"). */}}
{{- define "supercargo.agentPod" -}}
{{- $watches := eq .how "watch" -}}
{{- with .root -}}
serviceAccountName: {{ include "supercargo.serviceAccount" . | quote }}
automountServiceAccountToken: true
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $watches }}
# The last report takes up to 5 s.
terminationGracePeriodSeconds: 15
{{- else }}
restartPolicy: Never
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ quote . }}
{{- end }}
containers:
  - name: agent
    image: {{ include "supercargo.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args:
      - agent
      {{- if not $watches }}
      - --once
      {{- end }}
      - --config=/etc/supercargo/environments.yaml
      {{- if $watches }}
      - --listen={{ include "supercargo.listen" (list .Values.agent.bindAddress 8082) }}
      - --interval={{ .Values.agent.interval }}
      - --debounce={{ .Values.agent.debounce }}
      {{- if not .Values.agent.departedPods }}
      - --no-departed-pods
      {{- end }}
      {{- end }}
      - --containers={{ .Values.agent.containers }}
      {{- if .Values.agent.excludeSelf }}
      - --exclude-self
      {{- end }}
      {{- if .Values.agent.clusterIdentity }}
      - --cluster-identity
      {{- end }}
      - --strict
      {{- if .Values.compliance.allowHttp }}
      - --allow-http
      {{- end }}
    env:
      - name: SUPERCARGO_BASE_URL
        value: {{ include "supercargo.baseUrl" . | replace "$(" "$$(" | quote }}
      - name: SUPERCARGO_ORG
        value: {{ .Values.compliance.org | replace "$(" "$$(" | quote }}
      - name: SUPERCARGO_TOKEN_FILE
        value: /var/run/secrets/supercargo/token
      {{- if include "supercargo.caBundle" . }}
      - name: SUPERCARGO_CA_FILE
        value: /etc/supercargo/ca.crt
      {{- end }}
      - name: SUPERCARGO_LOG_FORMAT
        value: {{ .Values.agent.logFormat }}
      - name: SUPERCARGO_POD_NAME
        valueFrom:
          fieldRef:
            fieldPath: metadata.name
      - name: SUPERCARGO_POD_UID
        valueFrom:
          fieldRef:
            fieldPath: metadata.uid
      {{- with .Values.proxy.https }}
      - name: HTTPS_PROXY
        value: {{ quote . }}
      {{- end }}
      {{- with include "supercargo.noProxy" . }}
      {{- if not $.root.Values.proxy.forApiServer }}
      # Bypasses any proxy for the API server.
      {{- end }}
      {{- if $.root.Values.extraEnvFrom }}
      # Takes precedence over NO_PROXY in envFrom.
      {{- end }}
      - name: NO_PROXY
        value: {{ quote . }}
      {{- end }}
      {{- with .Values.extraEnv }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- with .Values.extraEnvFrom }}
    envFrom:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- if $watches }}
    ports:
      - name: metrics
        containerPort: 8082
        protocol: TCP
    livenessProbe:
      httpGet:
        path: /livez
        port: metrics
      timeoutSeconds: 5
    # An unavailable compliance service does not affect readiness; metrics and log show it.
    readinessProbe:
      httpGet:
        path: /readyz
        port: metrics
      timeoutSeconds: 5
    {{- end }}
    {{- with .Values.resources }}
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
      # A directory, since a subPath mount does not receive rotated tokens.
      - name: token
        mountPath: /var/run/secrets/supercargo
        readOnly: true
      {{- with .Values.extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
volumes:
  - name: config
    projected:
      defaultMode: 292 # 0444
      sources:
        - configMap:
            name: {{ include "supercargo.fullname" . | quote }}
        {{- with include "supercargo.caBundle" . }}
        {{- . | nindent 8 }}
        {{- end }}
  - name: token
    {{- with .Values.compliance.token.projected.audience }}
    projected:
      # Readable by any user of the pod.
      defaultMode: 292 # 0444
      sources:
        - serviceAccountToken:
            audience: {{ quote . }}
            expirationSeconds: 3600
            path: token
    {{- else }}
    secret:
      secretName: {{ quote .Values.compliance.token.existingSecret }}
      # Readable by any user of the pod.
      defaultMode: 292 # 0444
      items:
        - key: {{ quote .Values.compliance.token.key }}
          path: token
    {{- end }}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
nodeSelector:
  {{- include "supercargo.nodeSelector" .Values.nodeSelector | nindent 2 }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
tolerations:
  # Moves the agent from a lost node after 30 s instead of the default of five minutes.
  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 30}
  - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 30}
  {{- with .Values.tolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Source of the projected volume with the certificate authorities. */}}
{{- define "supercargo.caBundle" -}}
{{- with .Values.compliance.caBundle }}
{{- if or .configMap .secret -}}
- {{ ternary "configMap" "secret" (ne .configMap "") }}:
    name: {{ default .secret .configMap | quote }}
    items:
      - key: {{ quote .key }}
        path: ca.crt
{{- end }}
{{- end }}
{{- end -}}
