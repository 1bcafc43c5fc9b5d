{{- define "tipcast.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "tipcast.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tipcast.labels" -}}
{{ include "tipcast.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* "yes" where feeds are in a Redis. */}}
{{- define "tipcast.shared" -}}
{{- if or .Values.redis.url .Values.redis.existingSecret }}yes{{ end }}
{{- end }}

{{- define "tipcast.pod" -}}
metadata:
  labels:
    {{- include "tipcast.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    # A changed configuration rolls the nodes.
    checksum/config: {{ include (print $.Template.BasePath "/config.yaml") . | sha256sum }}
    checksum/secret: {{ include (print $.Template.BasePath "/secret.yaml") . | sha256sum }}
    {{- with .Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "tipcast.name" . }}
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{ toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile: { type: RuntimeDefault }
  containers:
    - name: tipcast
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: ["--config", "/etc/tipcast/tipcast.toml"]
      env:
        - { name: TIPCAST_HTTP__LISTEN, value: "0.0.0.0:8080" }
        - { name: TIPCAST_EMBEDDED__DATA_DIR, value: /data }
        # The only place that can be written to.
        - { name: SQLITE_TMPDIR, value: /data }
        {{- if or .Values.auth.producerKeys .Values.auth.existingSecret }}
        - name: TIPCAST_AUTH__PRODUCER_KEYS
          valueFrom:
            secretKeyRef:
              name: {{ .Values.auth.existingSecret | default (include "tipcast.name" .) }}
              key: {{ if .Values.auth.existingSecret }}{{ .Values.auth.existingSecretKey }}{{ else }}producer-keys{{ end }}
        {{- end }}
        {{- $ownAdmins := and .Values.auth.adminKeys (not .Values.auth.existingSecret) }}
        {{- $theirAdmins := and .Values.auth.existingSecret .Values.auth.existingSecretAdminKey }}
        {{- if or $ownAdmins $theirAdmins }}
        - name: TIPCAST_AUTH__ADMIN_KEYS
          valueFrom:
            secretKeyRef:
              name: {{ .Values.auth.existingSecret | default (include "tipcast.name" .) }}
              key: {{ if $theirAdmins }}{{ .Values.auth.existingSecretAdminKey }}{{ else }}admin-keys{{ end }}
        {{- end }}
        {{- if include "tipcast.shared" . }}
        - name: TIPCAST_REDIS__URL
          valueFrom:
            secretKeyRef:
              name: {{ .Values.redis.existingSecret | default (include "tipcast.name" .) }}
              key: {{ if .Values.redis.existingSecret }}{{ .Values.redis.existingSecretKey }}{{ else }}redis-url{{ end }}
        {{- end }}
        {{- with .Values.hosts }}
        - { name: TIPCAST_HTTP__HOSTS, value: {{ join "," . | quote }} }
        {{- end }}
        {{- with .Values.extraEnv }}{{ toYaml . | nindent 8 }}{{ end }}
      ports:
        - { name: http, containerPort: 8080 }
      # Liveness never asks the store: a restart does not bring a lost one back.
      startupProbe:
        httpGet: {{ include "tipcast.probe" (list . "/healthz") | nindent 10 }}
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet: {{ include "tipcast.probe" (list . "/healthz") | nindent 10 }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      readinessProbe:
        httpGet: {{ include "tipcast.probe" (list . "/readyz") | nindent 10 }}
        periodSeconds: 5
        timeoutSeconds: 6
        failureThreshold: 1
      resources: {{ toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      volumeMounts:
        - { name: config, mountPath: /etc/tipcast, readOnly: true }
        - { name: data, mountPath: /data }
  volumes:
    - name: config
      configMap: { name: {{ include "tipcast.name" . }} }
    {{- if include "tipcast.shared" . }}
    - name: data
      emptyDir: {}
    {{- end }}
  {{- if .Values.topologySpread }}
  topologySpreadConstraints:
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{ include "tipcast.selector" $ | nindent 10 }}
    {{- end }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{ toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* A probe's request; by a name that the gateway answers to. */}}
{{- define "tipcast.probe" -}}
path: {{ index . 1 }}
port: http
{{- with (index . 0).Values.hosts }}
httpHeaders:
  - { name: Host, value: {{ first . | quote }} }
{{- end }}
{{- end }}
