# Commands of this repository; each is a line or two of shell. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/millgate
#: a part of the tests (unit contracts conformance integration cluster e2e), or paths and options of pytest
TESTS ?= all
CLUSTER ?= auto
BROKER ?= local
DEMO ?= .venv-demo
DEMO_SOURCES := constraints.txt worker/pyproject.toml operator/pyproject.toml $(shell find worker/src operator/src -type f -not -name "*.pyc")
PEERS ?=
# many tests wait for servers and deadlines: more processes than cores pay off
JOBS ?= 4

PARTS := unit contracts conformance integration cluster e2e
ifeq ($(TESTS),all)
SELECTED := tests
else
SELECTED := $(foreach part,$(TESTS),$(if $(filter $(part),$(PARTS)),tests/$(part),$(part)))
endif
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --cluster=$(CLUSTER)
NODE := PYTHONPATH=tests $(BIN)/python -m node
NEEDS_PROGRAMS := $(filter all contracts cluster e2e,$(TESTS))
NEEDS_IMAGES := $(filter all cluster e2e,$(TESTS))

# inside $(call …) a comma of the text is written $(,)
, := ,
say = @printf '\033[1m==>\033[0m %s\n' "$(1)"

# $(1): the folder of a virtual environment that is to be there
define venv
@test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
@$(1)/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Millgate needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 2; }
endef

.PHONY: help install format lint check test e2e demo bench generate cluster-up cluster-down images clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## make the virtual environment with everything for development

$(VENV)/.installed: pyproject.toml constraints.txt worker/pyproject.toml operator/pyproject.toml
	$(call say,installing into $(VENV) (a minute on a new machine))
	$(call venv,$(VENV))
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.5'
	@$(BIN)/python -m uv pip install --quiet --python $(BIN)/python -c constraints.txt -e './worker[all]' -e ./operator --group dev
	@touch $@

format: install ## rewrite the sources in the house format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix-only --quiet .

generate: install ## write CRDs, the chart's copy and the reference pages from the models
	@$(BIN)/python -m millgate_operator.generate

lint: install ## format, ruff, mypy, import contracts
	$(call say,format and lint)
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/yamllint --strict -d '{extends: relaxed, rules: {line-length: disable}}' crds examples charts/millgate/Chart.yaml charts/millgate/values.yaml
	$(call say,types)
	@$(BIN)/mypy
	$(call say,import contracts)
	@$(BIN)/lint-imports | tail -n 14

check: lint ## lint, size budgets, generated files fresh: what a commit must pass
	$(call say,contracts: layout$(,) sizes$(,) generated files)
	@$(BIN)/python -m pytest -q -p no:randomly tests/contracts/test_layout.py tests/contracts/test_sizes.py tests/contracts/test_crds.py

test: install ## run the tests; TESTS=unit (or contracts conformance integration cluster e2e, or paths)
ifneq ($(NEEDS_PROGRAMS),)
	$(call say,programs of the test cluster (about ten minutes the first time$(,) nothing afterwards))
	@$(NODE) build $(if $(filter-out e2e,$(NEEDS_PROGRAMS)),,--cluster $(CLUSTER))
endif
ifneq ($(NEEDS_IMAGES),)
	$(call say,images of worker and operator)
	@$(NODE) images
endif
	$(call say,tests: $(SELECTED))
	@$(PYTEST) $(SELECTED) || { \
	  code=$$?; [ $$code -eq 1 ] || exit $$code; \
	  printf '\033[1m==>\033[0m %s\n' 'what failed beside the others, once more and alone (named above: a wait too short, or a bug)'; \
	  $(PYTEST) -n 1 --last-failed --last-failed-no-failures none $(SELECTED); }

e2e: install ## run the end-to-end tests; CLUSTER=node|kind|current
	$(call say,programs and images for the end-to-end tests)
	@$(NODE) build --cluster $(CLUSTER)
	@$(NODE) images
	$(call say,end-to-end tests on --cluster=$(CLUSTER))
	@$(PYTEST) tests/e2e

demo: $(DEMO)/.installed ## see it work: real input, no service needed, under a minute
	@$(DEMO)/bin/millgate dev -f examples/quickstart --once driver.py

$(DEMO)/.installed: $(DEMO_SOURCES)
	$(call say,installing into $(DEMO) (a minute on a new machine))
	$(call venv,$(DEMO))
	@$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade -c constraints.txt ./worker ./operator
	@touch $@

bench: install ## measure; BROKER=local|postgres|redis|rabbitmq|memory, PEERS=1 beside the peers
	$(call say,benchmark on $(BROKER)$(if $(PEERS), beside the peers))
	@$(BIN)/python -m benchmarks --broker $(BROKER) $(if $(PEERS),--peers)

cluster-up: install ## start the real one-node Kubernetes of the tests
	@$(NODE) up

cluster-down: install ## end it
	@$(NODE) down

images: install ## build the worker and operator images into the cache
	@$(NODE) images

clean: ## remove what the commands above made inside the repository
	@rm -rf $(VENV) $(DEMO) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist
