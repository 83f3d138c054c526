"""Asks the process of a container whether it is alive, for Docker's health check.

TICDC_SPARK_METRICS is the address that ``[metrics] listen`` of the job file names, as "127.0.0.1:9464". Without it
nothing can be asked, and the container counts as healthy as long as its process runs.
"""

import os
import urllib.request

if address := os.environ.get("TICDC_SPARK_METRICS"):
    urllib.request.urlopen(f"http://{address}/healthz", timeout=4).close()
