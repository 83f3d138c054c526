# make help lists what there is. Everything works from a fresh clone with Python 3.11+, Java 17 or 21, make and git.

SHELL := /bin/sh
export PYTHON
.DEFAULT_GOAL := help
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --no-input --disable-pip-version-check

.PHONY: help setup demo demo-circle test test-all simulate check format lock bench bench-catch-up bench-trickle bench-codecs bench-codecs-spark bench-changefeed bench-binlog bench-snapshot bench-big bench-debezium bench-latency bench-backlog bench-store bench-size bench-postgres bench-mysql bench-partitions bench-bounded bench-restart bench-verify clean test-mysql docs reference image manifests sbom audit

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 26

setup: .venv/installed ## make .venv with everything that is needed, pinned
	@true

# Rebuilt only when what is installed may have changed. Three steps, so that every byte is checked against a hash:
# the tools that build, what needs building with them, this package on top.
.venv/installed: requirements.lock requirements-build.lock pyproject.toml scripts/prerequisites.sh
	@python=$$(scripts/prerequisites.sh) && \
	if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then "$$python" -m venv --clear .venv; fi
	@echo "Installing into .venv; the first time this downloads Spark (about 400 MB)."
	@$(PIP) install --require-hashes -r requirements-build.lock
	@$(PIP) install --require-hashes --no-build-isolation -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## replicate a recorded shop into an Iceberg lake and show it
	@$(BIN)/ticdc-spark demo

demo-circle: setup ## MariaDB, changefeed, Kafka, replicate and Iceberg on this machine, compared at the end
	@$(BIN)/python -m scripts.demo_circle

# Two at a time: much of a test with servers is waiting. A file's tests stay together, and with them their servers.
TESTS := $(BIN)/python -m pytest -n $(or $(JOBS),2) --dist loadfile --durations 25

# On a fresh machine the servers are fetched while the first tests run, which need none. If that fails, a test says why.
FETCH := $(BIN)/python -m tests.support.fetch_all >/dev/null 2>&1 &

test: setup ## every test but the slow ones
	@$(FETCH) $(TESTS)

test-all: setup ## every test
	@$(FETCH) $(TESTS) -m 'slow or not slow'

WITH_MYSQL := $(patsubst %,tests/integration/test_%.py,mysql* binlog* changefeed_* circle defaults dropped_columns \
	first_rows generated_columns histories long_names merged partitions present_* replicate_upstream \
	row_filter row_stream snapshot swapped_tables table_ids upstream verify verify_keys)

test-mysql: setup ## the tests of captured databases and of targets with the MySQL in the folder MYSQL
	@TICDC_SPARK_MYSQL='$(MYSQL)' $(TESTS) -p tests.support.mysql_server -m 'not mariadb' $(WITH_MYSQL)

check: setup ## what is checked without running: style, types, imports, lock files
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python scripts/lock.py --check
	@$(PIP) check

format: setup ## rewrite the sources as make check wants them
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

lock: setup ## pin anew what pyproject.toml asks for
	@$(BIN)/python scripts/lock.py

docs: setup ## build the documentation site into site/, broken links are errors
	@$(BIN)/python -m zensical build --strict --clean

reference: setup ## write the pages of docs/reference that are made from the code
	@for script in types_table changefeed_keys reference chart; do $(BIN)/python -m scripts.$$script; done

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

image: ## build the container image ticdc-spark:VERSION; this needs Docker and the network
	@docker info >/dev/null 2>&1 || { echo "make image needs a Docker engine, and 'docker info' finds none." >&2; exit 1; }
	docker build --file deploy/Dockerfile --build-arg VERSION=$(VERSION) \
		--build-arg REVISION=$$(git rev-parse HEAD) --tag ticdc-spark:$(VERSION) .

sbom: setup ## write what an image has into dist/sbom.cdx.json; this needs the network
	@$(BIN)/python -m scripts.sbom

# --strict: a package that the service does not know fails, too. Without it, a service that is away finds nothing wrong.
audit: sbom ## the same, and ask for known vulnerabilities of the packages
	@$(BIN)/uv tool run --quiet pip-audit==2.10.1 --strict --require-hashes --disable-pip --requirement requirements-run.lock

manifests: setup ## write deploy/kubernetes from the Helm chart; this needs Helm 3
	@$(BIN)/python scripts/manifests.py

simulate: setup ## stories of the simulator: make simulate SEEDS=0-20000, or STEPS=10000000 (STORY=--story prints one)
	@$(BIN)/python -m tests.simulator --seeds $(or $(SEEDS),0-2000) $(if $(STEPS),--steps-total $(STEPS)) \
		--jobs $(or $(JOBS),0) --shrink $(STORY)

bench: setup ## measure
	@$(BIN)/python -m benchmarks.run

bench-catch-up: setup ## measure catching up in tables that have rows, beside a tuned job written by hand
	@$(BIN)/python -m benchmarks.catch_up

bench-bounded: setup ## measure one transaction of ten million rows, and a partition without watermarks
	@$(BIN)/python -m benchmarks.bounded

bench-restart: setup ## measure a restart of 300 idle tables, and a standby that takes over
	@$(BIN)/python -m benchmarks.restart

bench-verify: setup ## measure verify of ten million rows, while they change and after some were changed unseen
	@$(BIN)/python -m benchmarks.verify

bench-postgres: setup ## measure catching up in PostgreSQL, beside Spark's JDBC writer and a merge written by hand
	@$(BIN)/python -m benchmarks.databases postgres

bench-mysql: setup ## the same in a MariaDB
	@$(BIN)/python -m benchmarks.databases mysql

bench-partitions: setup ## measure DROP PARTITION of one of ten partitions, beside DELETE in Spark
	@$(BIN)/python -m benchmarks.drop_partition

bench-size: setup ## measure what a change costs in tables of different sizes (SIZES="100000 10000000 100000000")
	@$(BIN)/python -m benchmarks.table_size $(if $(SIZES),--sizes $(SIZES))

bench-trickle: setup ## measure what a job costs while little comes, and when it is visible
	@$(BIN)/python -m benchmarks.trickle

bench-codecs: setup ## measure reading and writing of the protocols, without Spark
	@$(BIN)/python -m benchmarks.codecs --go

bench-codecs-spark: setup ## the same in tasks of Spark, one at a time
	@$(BIN)/python -m benchmarks.codecs_spark

bench-changefeed: setup ## measure filter and dispatch of a changefeed, without Spark and Kafka
	@$(BIN)/python -m benchmarks.changefeed_route

bench-binlog: setup ## measure reading a MariaDB's binlog
	@$(BIN)/python -m benchmarks.binlog

bench-debezium: setup ## measure a changefeed of a binlog beside Debezium's own connector
	@$(BIN)/python -m benchmarks.changefeed_binlog

bench-latency: setup ## measure the time from a commit to its message, beside Debezium's own connector
	@$(BIN)/python -m benchmarks.changefeed_binlog --latency 30

bench-snapshot: setup ## measure how fast a changefeed sends the rows that a table has
	@$(BIN)/python -m benchmarks.changefeed_snapshot

bench-big: setup ## read a table of 10,000,000 rows while they change, killed on the way (ROWS=, KILLS=, SIDE=replicate or changefeed)
	@$(BIN)/python -m benchmarks.big_snapshot --rows $(or $(ROWS),10000000) --kills $(or $(KILLS),5) --side $(or $(SIDE),replicate)

bench-backlog: setup ## measure how fast a changefeed turns a topic into another protocol, in one process and by tasks
	@$(BIN)/python -m benchmarks.changefeed_backlog

bench-store: setup ## measure the same catch-up into a lake on the local disk and into one behind an S3 server
	@$(BIN)/python -m benchmarks.store

clean: ## remove everything that was made here
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf dist site spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
