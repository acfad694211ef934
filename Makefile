# Every chore of this repository; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
TARGET ?= gfx1201
PROFILE ?= core
# For the recipes alone: programs read variables of such names, and mean something else.
unexport TARGET PROFILE ARGS
VENV := .venv
BIN := $(VENV)/bin
# A stamp is as old as the set-up it stands for; a changed pyproject.toml makes the environment anew.
BUILD_READY := $(VENV)/.ready-to-build
TEST_READY := $(VENV)/.ready-to-test
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check

.PHONY: help setup setup-test qualify test test-slow controls lint format schemas clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(BUILD_READY) ## make .venv with what building needs (no torch)

setup-test: $(TEST_READY) ## add what the tests need (torch among it)

$(BUILD_READY): pyproject.toml
	@echo "setting up $(VENV) for building ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "assay needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) --editable '.[build,emulate]'
	@touch $@

# A CPU build of torch where one is offered; a plain one, which is gigabytes, only where none is.
$(TEST_READY): $(BUILD_READY)
	@echo "setting up $(VENV) for testing ..."
	@$(PIP_INSTALL) --editable '.[build,emulate,test]'
	@$(PIP_INSTALL) 'torch==2.13.0+cpu' 2>/dev/null || $(PIP_INSTALL) torch
	@touch $@

qualify: $(BUILD_READY) ## build and judge every kernel: make qualify TARGET=gfx1201 [PROFILE=core] [ARGS=...]
	@$(BIN)/assay qualify --target '$(TARGET)' --profile '$(PROFILE)' $(ARGS)

# One process a processor, each with whole files, since fixtures of a file are costly.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile

test: $(TEST_READY) ## the test suite, without the slow tests
	@$(PYTEST) -m 'not slow' $(ARGS)

test-slow: $(TEST_READY) ## the slow tests only
	@$(PYTEST) -m slow $(ARGS)

controls: $(TEST_READY) ## every instruction of two kernels made wrong; writes docs/negative-controls.md (half an hour)
	@$(BIN)/python -m tests.negative_controls $(ARGS)

lint: $(TEST_READY) ## formatter and linter, without changing anything
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

format: $(TEST_READY) ## let the formatter and linter change the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

schemas: $(BUILD_READY) ## write the JSON Schemas of spec files anew
	@for kind in target family profile waivers models; do \
	  $(BIN)/assay schema $$kind > kernel_specs/schemas/$$kind.schema.json; done

clean: ## remove the environment, build leftovers and unreleased artefacts (locks stay)
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find artifacts -type f ! -name '*.lock' -delete 2>/dev/null || true
