{{- define "ticdc-spark.labels" -}}
{{ include "ticdc-spark.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "ticdc-spark.selector" -}}
app.kubernetes.io/name: ticdc-spark
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: driver
{{- end }}

{{- define "ticdc-spark.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* What every container of this image may do: nothing but write to its volumes. */ -}}
{{- define "ticdc-spark.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
{{- end }}

{{- define "ticdc-spark.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- /* Spark's settings: those of the chart, then those of the values, which win. Each is text in TOML. */ -}}
{{- define "ticdc-spark.spark" -}}
{{- $settings := dict "spark.master" (printf "local[%d]" (int .Values.driver.cores)) "spark.driver.memory" .Values.driver.heap -}}
{{- if .Values.executors.instances -}}
{{- /* The three that are false spare the driver rights that it has no use for. */ -}}
{{- $settings = dict
  "spark.driver.memory" .Values.driver.heap
  "spark.master" "k8s://https://kubernetes.default.svc"
  "spark.kubernetes.namespace" .Release.Namespace
  "spark.kubernetes.container.image" (include "ticdc-spark.image" .)
  "spark.kubernetes.container.image.pullPolicy" .Values.image.pullPolicy
  "spark.kubernetes.executor.podTemplateFile" "/etc/ticdc-spark/executor.yaml"
  "spark.kubernetes.executor.podTemplateContainerName" "executor"
  "spark.kubernetes.executor.podNamePrefix" .Release.Name
  "spark.kubernetes.executor.disableConfigMap" "true"
  "spark.kubernetes.driver.ownPersistentVolumeClaim" "false"
  "spark.kubernetes.driver.reusePersistentVolumeClaim" "false"
  "spark.kubernetes.driver.service.deleteOnTermination" "false"
  "spark.kubernetes.driver.pod.name" "${env:POD_NAME}"
  "spark.kubernetes.authenticate.serviceAccountName" (printf "%s-driver" .Release.Name)
  "spark.driver.bindAddress" "0.0.0.0"
  "spark.driver.host" (printf "%s-driver.%s.svc" .Release.Name .Release.Namespace)
  "spark.driver.port" "7078"
  "spark.blockManager.port" "7079"
  "spark.pyspark.python" "/opt/ticdc-spark/bin/python"
  "spark.executor.instances" (toString .Values.executors.instances)
  "spark.executor.cores" (toString .Values.executors.cores)
  "spark.executor.memory" .Values.executors.heap
  "spark.executor.memoryOverhead" .Values.executors.overhead
  "spark.sql.shuffle.partitions" (toString (mul 2 .Values.executors.instances .Values.executors.cores))
  "spark.scheduler.maxRegisteredResourcesWaitingTime" "10m"
-}}
{{- end -}}
{{- range $name, $value := merge (deepCopy .Values.spark) $settings -}}
{{ $name | toJson }} = {{ $value | toJson }}
{{ end }}
{{- end }}
