# OrbitMQ: every way to build, check and measure the project. `make` alone lists the targets.
#
# Profiles, so that two cores do not compile everything three times: the Python module is built in
# release (what users run, what benches and suites measure); `cargo test` and clippy use dev, which
# compiles fast, keeps overflow and debug assertions on, and shares its build scripts (zstd's C
# code above all) between the two.

BASE_PYTHON ?= python3
VENV := .venv
PYTHON := $(VENV)/bin/python
# Without make's jobserver, which only recipes that run make are given: cargo would complain.
CARGO := env -u MAKEFLAGS -u MFLAGS cargo
NEED := .ci/need

# Steps of a build say what they do and how long that takes roughly. On a terminal cargo shows its
# progress bar below that line; elsewhere cargo is quiet, so that logs of CI stay short.
SAY := @printf '\n==> %s\n'
ON_TERMINAL := $(shell test -t 2 && echo yes)
CARGO_OUTPUT := $(if $(ON_TERMINAL),,--quiet)
MATURIN := env -u CONDA_PREFIX -u MAKEFLAGS -u MFLAGS VIRTUAL_ENV=$(abspath $(VENV)) $(VENV)/bin/maturin

RUST_SOURCES := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name 'Cargo.toml')
PYTHON_PATHS := $(wildcard src tests compat crash benches examples tools)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

.PHONY: help
help: ## List the targets
	@echo "OrbitMQ, make targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ---- build -------------------------------------------------------------------------------------

.PHONY: build
build: $(VENV)/.native ## Create .venv and install the package with its release-built Rust core

$(VENV)/.tools: pyproject.toml
	@$(BASE_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "OrbitMQ needs Python 3.11 or newer; '$(BASE_PYTHON)' is $$($(BASE_PYTHON) --version 2>&1 || true)." >&2; \
	  echo "Point BASE_PYTHON at one: make build BASE_PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(SAY) "Creating .venv and installing the development tools with pip (about half a minute, once)"
	@test -x $(PYTHON) || $(BASE_PYTHON) -m venv $(VENV)
	@$(PYTHON) -m pip install --quiet --upgrade 'pip>=25.1'
	@$(PYTHON) -m pip install --quiet --upgrade --group dev
	@touch $@

$(VENV)/.native: $(VENV)/.tools $(RUST_SOURCES)
	@CI=true $(NEED) cargo -- true
	$(SAY) "Compiling the Rust core and installing orbitmq into .venv (about two minutes the first time)"
	@$(MATURIN) develop --release --locked $(CARGO_OUTPUT) >/dev/null
	@touch $@

# The lint needs Spark's types, the suite two Sparks: the newest 4.x in .venv, and the lowest that is
# supported in a directory of its own that PYTHONPATH puts before it.
SPARK_LOWEST := 4.2.0
SPARK_LOWEST_DIR := .build/spark-$(SPARK_LOWEST)
ON_LOWEST := env PYTHONPATH=$(abspath $(SPARK_LOWEST_DIR))

$(VENV)/.spark: $(VENV)/.tools
	$(SAY) "Installing Spark into .venv with pip (about 500 MB, once)"
	@$(PYTHON) -m pip install --quiet --upgrade --group spark
	@touch $@

$(SPARK_LOWEST_DIR)/.installed: $(VENV)/.tools
	$(SAY) "Installing Spark $(SPARK_LOWEST) into $(SPARK_LOWEST_DIR) with pip (about 500 MB, once)"
	@rm -rf $(SPARK_LOWEST_DIR)
	@$(PYTHON) -m pip install --quiet --target $(SPARK_LOWEST_DIR) pyspark==$(SPARK_LOWEST)
	@touch $@

.PHONY: build-all
build-all: build $(SPARK_LOWEST_DIR)/.installed # With -j2 the lowest Spark comes while the core compiles

# Drivers of tests start from an archive of Spark's classes in half the time.
$(VENV)/.spark-classes: $(VENV)/.spark tests/spark/quick_start.py | $(VENV)/.native
	@$(NEED) java -- $(PYTHON) -m tests.spark.quick_start
	@touch $@

$(SPARK_LOWEST_DIR)/.classes: $(SPARK_LOWEST_DIR)/.installed tests/spark/quick_start.py | $(VENV)/.native
	@$(NEED) java -- $(ON_LOWEST) $(PYTHON) -m tests.spark.quick_start
	@touch $@

# ---- suites ------------------------------------------------------------------------------------

SUITES := test-fast test-client test-wheel test-fuzz test-compat test-crash test-spark demo

# A machine that stalls can make a test fail that waits for other programs. Under CI it gets a second
# try, three tests of a suite at most, and how it failed is shown whole: a bug, to be mended. There is
# none where the question is what was lost or repeated, be it in crash/ or here, nor for the fuzzer.
SECOND_TRY := $(if $(CI),--reruns 1 --max-suite-reruns 3 --rerun-show-tracebacks)

# Tests that wait (for a timeout, a process, a disk) leave a core to another file of tests.
TWO_FILES := -n 2 --dist loadfile

.PHONY: test
test: $(SUITES) ## Run every suite

.PHONY: suites
suites: # What `make test` runs, for .ci/run to time one by one
	@echo $(SUITES)

.PHONY: test-fast test-fast-crates test-fast-package
test-fast: build ## Unit and property tests of the crates and the package (under a minute once built)
	@$(MAKE) -j2 --output-sync=target test-fast-crates test-fast-package

test-fast-crates:
	$(CARGO) test --locked --quiet -p orbitmq-wire -p orbitmq-store -p orbitmq-columns

test-fast-package:
	$(PYTHON) -m pytest $(TWO_FILES) $(SECOND_TRY) tests --ignore=tests/client --ignore=tests/spark --ignore=tests/test_examples.py

.PHONY: test-client
test-client: build ## The client's decisions, the client on a cluster and on a bad network, the examples
	$(PYTHON) -m pytest $(TWO_FILES) $(SECOND_TRY) tests/client tests/test_examples.py

.PHONY: wheel
wheel: build ## Build the wheel into .build/wheel
	$(SAY) "Building the wheel (about half a minute)"
	@rm -rf .build/wheel
	@$(MATURIN) build --release --locked $(CARGO_OUTPUT) --out .build/wheel >/dev/null
	@echo "Built $$(echo .build/wheel/*.whl)"

.PHONY: test-wheel
test-wheel: wheel ## Install the wheel into an empty environment, and use it as a stranger would
	rm -rf .build/wheel-venv
	$(BASE_PYTHON) -m venv .build/wheel-venv
	.build/wheel-venv/bin/python -m pip install --quiet --disable-pip-version-check .build/wheel/*.whl
	cd .build && wheel-venv/bin/python ../tests/installed.py

.PHONY: test-fuzz
test-fuzz: ## Run each fuzz target for 30 seconds
	@$(NEED) cargo -- fuzz/run.sh

# Most of this suite waits for others (a Java broker's start, a rebalance), so its thirds run side
# by side, each with its output in one piece. What they need is fetched before.
COMPAT_OUR_CLIENT := compat/python_client compat/spark
COMPAT_THEIR_CLIENTS := compat/java-client compat/go-client compat/twin

.PHONY: test-compat test-compat-our-client test-compat-their-clients test-compat-rest
test-compat: build $(VENV)/.spark $(SPARK_LOWEST_DIR)/.installed ## Compare with Apache RocketMQ 4.9.7 itself (needs a JDK 17)
	@$(NEED) java javac -- $(PYTHON) -m compat.jars
	@$(MAKE) -j3 --output-sync=target test-compat-our-client test-compat-their-clients test-compat-rest

test-compat-our-client:
	@$(NEED) java javac -- $(PYTHON) -m pytest $(SECOND_TRY) $(COMPAT_OUR_CLIENT)

test-compat-their-clients:
	@$(NEED) java javac -- $(PYTHON) -m pytest $(SECOND_TRY) $(COMPAT_THEIR_CLIENTS)

test-compat-rest:
	@$(NEED) java javac -- $(PYTHON) -m pytest $(SECOND_TRY) compat $(addprefix --ignore=,$(COMPAT_OUR_CLIENT) $(COMPAT_THEIR_CLIENTS))
	@$(NEED) java javac -- $(ON_LOWEST) $(PYTHON) -m pytest $(SECOND_TRY) compat/spark/test_source.py compat/spark/test_sink.py -k 4.9.7

.PHONY: test-crash
test-crash: build ## Kill a writer at random moments and look at what recovery finds
	$(PYTHON) -m pytest -n 2 crash

# On both Sparks. Two of the four parts run at a time, the longest first, and what a part says comes
# in one piece. For the sake of time the newest Spark alone runs commands, projects, documents, the
# checks of files, pipelines on a standalone cluster and their progress, every kind of state, restarts of
# brokers, and what kills, readers and rivals do to an archive.
SPARK_PARTS := test-spark-rest test-spark-kills test-spark-lowest-kills test-spark-lowest-rest

.PHONY: test-spark $(SPARK_PARTS)
test-spark: build $(VENV)/.spark $(SPARK_LOWEST_DIR)/.installed ## The Spark connector, on the newest and the lowest Spark (needs Java 17)
	@$(MAKE) -j2 $(VENV)/.spark-classes $(SPARK_LOWEST_DIR)/.classes
	@$(MAKE) -j2 --output-sync=target $(SPARK_PARTS)

test-spark-rest:
	@$(NEED) java -- $(PYTHON) -m pytest $(SECOND_TRY) tests/spark -m "not kills"

test-spark-kills:
	@$(NEED) java -- $(PYTHON) -m pytest tests/spark -m kills

test-spark-lowest-rest:
	@$(NEED) java -- $(ON_LOWEST) $(PYTHON) -m pytest $(SECOND_TRY) tests/spark -m "not kills and not newest_spark"

test-spark-lowest-kills:
	@$(NEED) java -- $(ON_LOWEST) $(PYTHON) -m pytest tests/spark -m "kills and not newest_spark"

# What CI does once or twice, SOAK times: brokers and workers that restart under load, and brokers that
# restart under streams.
SOAK ?= 10

.PHONY: soak soak-groups soak-streams
soak: soak-groups soak-streams ## Repeat the restarts of CI, SOAK=10 times; some minutes a round (needs a JDK 17)

soak-groups: build
	@$(NEED) java javac -- env SOAK=$(SOAK) $(PYTHON) -m pytest -s compat/restarts

soak-streams: build $(VENV)/.spark
	@$(NEED) java javac -- env SOAK=$(SOAK) $(PYTHON) -m pytest tests/spark/test_broker_restarts.py compat/spark/test_broker_restarts.py

# ---- lint --------------------------------------------------------------------------------------

.PHONY: lint lint-python lint-rust
lint: build $(VENV)/.spark ## ruff, mypy --strict, stubtest, rustfmt, clippy, import-linter
	@$(MAKE) -j2 --output-sync=target lint-python lint-rust

lint-python:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy --strict $(PYTHON_PATHS)
	$(PYTHON) -m mypy.stubtest --mypy-config-file pyproject.toml orbitmq._native
	$(VENV)/bin/lint-imports

lint-rust:
	@$(NEED) cargo rustfmt -- $(CARGO) fmt --all --check
	@$(NEED) cargo clippy -- $(CARGO) clippy --locked --quiet --workspace --all-targets -- -D warnings

.PHONY: format
format: build ## Rewrite the sources in the house style
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .
	$(CARGO) fmt --all

.PHONY: docs
docs: build ## Write the page of all settings, docs/settings.md, from their declarations
	$(PYTHON) -m orbitmq.config.reference > docs/settings.md

.PHONY: api
api: build ## Write the public API to tests/tools/public_api.txt, which a test compares
	$(PYTHON) -m tools.public_api --write

.PHONY: deny
deny: ## Check licences, sources and known weaknesses of the Rust dependencies (needs cargo-deny)
	@command -v cargo-deny >/dev/null || { echo "cargo-deny is not installed: cargo install --locked cargo-deny" >&2; exit 1; }
	$(CARGO) deny --locked check

# ---- run ---------------------------------------------------------------------------------------

.PHONY: up
up: build ## Run nameserver and broker in one process (options in ARGS, e.g. ARGS="--port 19876")
	$(SAY) "Starting OrbitMQ. In another terminal, '. $(VENV)/bin/activate' makes orbitmq and python available"
	@echo
	@$(VENV)/bin/orbitmq up $(ARGS)

.PHONY: demo
demo: build $(VENV)/.spark ## A cluster, orders, a Spark pipeline, its results and a plot, in about a minute (needs Java 17)
	@$(NEED) java -- $(PYTHON) examples/orders_pipeline/demo.py $(ARGS)

# ---- the rest ----------------------------------------------------------------------------------

.PHONY: bench
bench: build ## Measure against Apache RocketMQ 4.9.7 and its like in one run (needs a JDK 17)
	$(PYTHON) -m pip install --quiet --group bench
	@$(NEED) cargo java javac -- $(PYTHON) -m benches

.PHONY: bench-spark
bench-spark: build $(VENV)/.spark $(SPARK_LOWEST_DIR)/.installed ## Measure the Spark source and sink against Spark's Kafka connector (needs a JDK 17)
	$(PYTHON) -m pip install --quiet --group bench
	@$(NEED) java -- $(PYTHON) -m benches.spark

.PHONY: clean
clean: ## Remove everything that was built or downloaded
	rm -rf $(VENV) fuzz/target fuzz/corpus fuzz/artifacts .build .jars .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -f src/orbitmq/_native*.so
	find src tests compat crash benches examples tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
	$(CARGO) clean --quiet
