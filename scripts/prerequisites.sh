#!/bin/sh
# Prints the path of a Python that can run this project, or says in one sentence what is missing and exits 1.
# PYTHON names the interpreter to use; else the first that fits of python3, python3.11 … python3.14.
set -u

fits='import sys; sys.exit(sys.version_info < (3, 11))'
python=
for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13 python3.14}; do
    if "$candidate" -c "$fits" >/dev/null 2>&1; then
        python=$("$candidate" -c 'import sys; print(sys.executable)')
        break
    fi
done
if [ -z "$python" ]; then
    found=$("${PYTHON:-python3}" -c 'import platform; print("found " + platform.python_version())' 2>/dev/null)
    echo "ticdc-spark needs Python 3.11 or newer (${found:-none found}): install it, or name it with PYTHON=/path/to/python3." >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    echo "ticdc-spark needs Python's venv module, which $python lacks: install it (on Debian the package python3-venv)." >&2
    exit 1
fi

java=${JAVA_HOME:+$JAVA_HOME/bin/}java
# The first line is: openjdk version "17.0.15" 2025-04-15; before Java 9 it said "1.8.0_402".
version=$("$java" -version 2>&1 </dev/null | sed -n 's/.* version "\([0-9.]*\).*/\1/p' | head -n 1)
major=${version#1.}
major=${major%%.*}
if [ -z "$major" ]; then
    echo "ticdc-spark needs Java 17 or 21 to run Spark, and '$java' does not run: install it, or set JAVA_HOME." >&2
    exit 1
fi
if [ "$major" -lt 17 ]; then
    echo "ticdc-spark needs Java 17 or 21 to run Spark, and '$java' is version $version: install one, or set JAVA_HOME." >&2
    exit 1
fi

echo "$python"
