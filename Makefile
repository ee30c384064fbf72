# Every target makes its own set-up in .venv; a second run starts at once and needs no network.
PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-all lint bench venv clean

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20
	@echo '  ARGS="..." is passed on by demo and test; PYTHON=python3.12 picks the interpreter of a new .venv'

demo: $(VENV)/.installed-plot,web  ## a tour in a minute, with a page to look at
	$(BIN)/kpca demo $(ARGS)

# Two test processes: one BLAS thread each, or they compete for the cores. The engine's own threads are not affected.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

test: $(VENV)/.installed-test  ## run the tests, less the slow ones
	$(PYTEST) -m 'not slow' $(ARGS)

test-slow: $(VENV)/.installed-test  ## run the slow tests
	$(PYTEST) -m slow $(ARGS)

test-all: test-slow test  ## run all tests

lint: $(VENV)/.installed-lint  ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench:  ## list the benchmarks and how to run each
	@echo 'Once make test has set up $(VENV):'
	@for file in $(sort $(wildcard benchmarks/bench_*.py)); do \
		echo "  $(BIN)/python -m benchmarks.$$(basename $$file .py)"; \
		sed -n '1s/^"""\([^"]*\).*/      \1/p' $$file; \
	done
	@test -n '$(wildcard benchmarks/bench_*.py)' || echo 'There is no benchmarks/bench_*.py yet.'

venv: $(BIN)/pip  ## make an empty .venv

clean:  ## remove .venv, caches and build output
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist src/kpca.egg-info src/kpca/kernels/_simd.*.so
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# pip is the last thing venv writes, so a half-made .venv is made again.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit("kpca needs Python 3.11 or newer, $(PYTHON) is %d.%d; try: make PYTHON=python3.12" \
		% sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

# One stamp per extra: pip runs only when what it installs or compiles is newer.
$(VENV)/.installed-%: pyproject.toml setup.py src/kpca/kernels/_simd.c | $(BIN)/pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@
