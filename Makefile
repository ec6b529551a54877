# Everything runs in .venv, which the first target that needs it makes, with nothing but python3, venv and pip.
# Another Python: make test PYTHON=python3.13 (after `make clean`, if .venv was made with the first one).

PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# The root, the kernel and every plugin: a new plugin folder needs no change here.
METADATA := pyproject.toml core/pyproject.toml $(wildcard plugins/*/*/pyproject.toml)
EDITABLE := $(foreach folder,$(dir $(METADATA)),--editable ./$(folder))
REFERENCE := $(wildcard docs/reference/*.md)
COG := $(BIN)/cog -I docs/reference

# mkdocs-material would advertise its successor at every run.
export NO_MKDOCS_2_WARNING := 1

# What is installed is recorded by two files, so that a target whose set-up is done starts at once.
DEFAULT := .venv/default-installed
DEVELOPMENT := .venv/development-installed

.DEFAULT_GOAL := help
# Two runs of pip must not share .venv.
.NOTPARALLEL:
.PHONY: help demo test check docs reference format build clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(DEFAULT)  ## see Kipu index a folder of Markdown and answer questions
	@mkdir -p build
	@$(BIN)/kipu demo build/demo
	@echo "Here, the command kipu is in .venv/bin. To have it at hand: . .venv/bin/activate"

test: $(DEVELOPMENT)  ## run all tests
	$(BIN)/python -m pytest

check: $(DEVELOPMENT)  ## check style, types, the import rule and the docs
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy core/src plugins examples docs
	$(BIN)/python -m pytest --quiet tests/test_import_rule.py
	$(COG) --check --diff $(REFERENCE)
	$(BIN)/mkdocs build --quiet --strict

docs: $(DEVELOPMENT)  ## show the docs in a browser while they are written
	$(BIN)/mkdocs serve

reference: $(DEVELOPMENT)  ## write the generated pages of docs/reference anew
	$(COG) -r $(REFERENCE)

format: $(DEVELOPMENT)  ## format the code
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

build: $(DEVELOPMENT)  ## build all distributions, as they are published, into build/distributions
	@rm -rf build/distributions
	@for folder in $(dir $(METADATA)); do \
		$(BIN)/python -m build --no-isolation --outdir build/distributions $$folder || exit 1; \
	done

clean:  ## remove .venv and everything that was built
	rm -rf .venv build .mypy_cache .pytest_cache .ruff_cache .hypothesis

# pip is the last thing that venv makes: where it is missing, an earlier attempt was cut short.
$(BIN)/pip:
	@echo "Making .venv"
	@$(PYTHON) -m venv .venv

$(DEFAULT): $(METADATA) | $(BIN)/pip
	@echo "Installing Kipu into .venv"
	@$(PIP_INSTALL) $(EDITABLE)
	@touch $@

$(DEVELOPMENT): $(METADATA) requirements-dev.txt | $(BIN)/pip
	@echo "Installing Kipu and what its tests need into .venv"
	@$(PIP_INSTALL) --requirement requirements-dev.txt $(EDITABLE)
	@touch $(DEFAULT) $@
