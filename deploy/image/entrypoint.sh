#!/bin/sh
# Runs ticdc-spark with the arguments of the container. The one word "executor" comes from Spark, which starts its
# executors on Kubernetes so, and says the rest in the environment (as the entry point of Spark's own image has it).
set -eu

if [ "${1:-}" != executor ]; then
    exec ticdc-spark "$@"
fi

spark=$(python -c 'import pyspark; print(pyspark.__path__[0])')
# One argument for each SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1 …
set --
number=0
while option=$(printenv "SPARK_JAVA_OPT_$number"); do
    set -- "$@" "$option"
    number=$((number + 1))
done
exec "$JAVA_HOME/bin/java" "$@" \
    -Xms"$SPARK_EXECUTOR_MEMORY" \
    -Xmx"$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CLASSPATH:-}:$spark/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
