# `make` alone prints what there is.
PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest
# DeepSpeed looks for ninja, which pip puts into .venv/bin, along PATH.
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup toy doctor test lint unit domains integration ci-run test-long clean

help:  ## print this
	@grep -hE '^[a-z-]+:.*  ## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*  ## /\1\t/' | awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'

setup:  ## make .venv (first call 5 minutes and 4 GB, later calls at once; EXTRAS=gpu,dev for GPUs)
	@bash .ci/setup.sh

toy: setup  ## train the toy run end to end on this machine's CPU
	$(PYTHON) -m train experiment=toy

doctor: setup  ## what this machine has, what it lacks, and what that costs
	$(PYTHON) -m train.doctor

test: lint unit domains integration ci-run  ## all that continuous integration checks

lint: setup  ## ruff and mypy
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy

unit: setup  ## tests without vLLM, DeepSpeed and Ray runs
	$(PYTEST) tests --ignore=tests/integration

domains: setup  ## every domain keeps its promise, on a few tasks each
	$(PYTHON) -m envs check --seeds 3

integration: setup  ## tests with the real stack
	$(PYTEST) tests/integration

ci-run: setup  ## the smallest whole run, stopped and resumed
	$(PYTHON) -m tests.integration.ci_run

test-long: setup  ## the tests that take more than half a minute each
	$(PYTEST) tests -m long

clean:  ## remove .venv, caches and build leftovers; runs/ stays
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
