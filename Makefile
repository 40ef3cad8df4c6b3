# Everything sets itself up: only Python ≥ 3.11 and make are needed.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# Compiled modules and assertions are kept, whatever the environment says: they cost each of the
# test processes, and each command that a test starts, most of its start.
PYTEST = PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: demo outputs test test-all test-faults test-engines test-clients test-cluster reference lint check install docs notebook clean

# The main job on a real local OpenSearch node.
demo: $(VENV)/.node
	$(BIN)/owpc-ltr demo

# What every commit must pass, with the real node started once.
test: $(VENV)/.dev
	$(PYTEST) --numprocesses 2 --dist loadgroup

# The thorough tests too: the demo, reproduction, wheels, Dask, the browser, an Elasticsearch node, more
# faults and examples.
test-all: $(VENV)/.dev
	OWPC_LTR_TESTS=all $(PYTEST) --numprocesses 2 --dist loadgroup

# Every fault at every stage. A failure prints the line that runs its cell again:
# OWPC_LTR_FAULTS_CELL='…' make test-faults
test-faults: $(VENV)/.dev
	OWPC_LTR_FAULTS=all $(PYTEST) -m faults \
	  --numprocesses 2 --dist loadgroup

# Runs the commands of all pages, and writes the numbers of the outputs that they show anew. The pages
# on movies need the data of OWPC_LTR_DATA; the results and the notebook on OHSUMED need LETOR_FOLDS,
# the folder of its five folds. Minutes.
outputs: $(VENV)/.dev $(VENV)/.notebook
	OWPC_LTR_OUTPUTS=write OWPC_LTR_TESTS=all $(PYTEST) -k "code_of_a_page" \
	  tests/test_docs.py tests/engine/test_workflows.py
ifdef LETOR_FOLDS
	$(BIN)/python benchmarks/ohsumed.py $(LETOR_FOLDS) --write docs/results.md
	$(BIN)/python docs/notebooks/run.py ohsumed
endif

# The workflow without a plugin on each engine, one node after another; writes the table of
# docs/engines.md. Elasticsearch is downloaded for it, under Elastic's own licences.
test-engines: $(VENV)/.dev
	$(BIN)/python -m tests.engines.table --half
	OWPC_LTR_TEST_ENGINES=1 $(PYTEST) \
	  tests/engines/test_elastics_own_model.py tests/engines/test_eland.py

# Clients of rerank APIs, from PyPI, against the service: 600 MB in an environment of their own.
test-clients: $(VENV)/.dev $(VENV)/.clients
	OWPC_LTR_TEST_CLIENTS=$(VENV)/clients/bin/python $(PYTEST) tests/serve/test_clients.py

# A cluster of three local nodes, with several copies of each shard: 2 GB of memory, minutes.
test-cluster: $(VENV)/.dev
	OWPC_LTR_TEST_CLUSTER=1 $(PYTEST) tests/cluster

# Writes the pages that are made from the code: commands, Python, plugins, and the layout of design.md.
# Needed after a change of a signature, a help text or a docstring.
reference: $(VENV)/.dev
	$(BIN)/python docs/make_reference.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/make_reference.py --check

check: lint test

install: $(VENV)/.node

# The documentation, in site/: for any static server, and made without network.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean

# Runs the notebooks whose data are named, and writes their pages: LETOR_FOLDS, MSRD_MOVIES.
notebook: $(VENV)/.notebook
	$(BIN)/python docs/notebooks/run.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# An installation that already satisfies pyproject.toml is left alone, so that it works offline.
# What the demo does not import need not be compiled.
$(VENV)/.node: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[node]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/.node

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

$(VENV)/.notebook: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[notebook]'
	touch $@

$(VENV)/.clients: tests/serve/clients.txt | $(VENV)/bin/python
	$(PYTHON) -m venv $(VENV)/clients
	$(VENV)/clients/bin/python -m pip install --quiet --requirement $<
	touch $@

clean:
	rm -rf $(VENV) dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
