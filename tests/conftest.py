"""What every test shares: a small Hypothesis profile with the same examples each time, and quick starts of Spark."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("quick", max_examples=50, deadline=None, derandomize=True, database=None)
settings.register_profile(
    "deep", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# Commands that tests start live for seconds. In these, Java's optimizing compiler takes more than it gives. These
# variables, unlike JAVA_TOOL_OPTIONS, reach Spark alone, and Java prints nothing about them.
for _name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(_name, "-XX:TieredStopAtLevel=1")
