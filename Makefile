VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed

# On a busy machine the threads of a small matrix product wait for one another.
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: run test test-all lint docs bench clean

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(PY) || python3 -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

run: $(INSTALLED)
	$(VENV)/bin/wickgarten check

test: $(INSTALLED)
	$(PY) -m pytest

test-all: $(INSTALLED)
	$(PY) -m pytest -m 'slow or not slow'

lint: $(INSTALLED)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

docs: $(INSTALLED)
	$(PY) -m sphinx -W --keep-going -q docs docs/_build
	@echo docs/_build/index.html

bench: $(INSTALLED)
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,bench]'
	$(PY) -m pytest tests/benchmarks --benchmark-only

clean:
	rm -rf $(VENV) docs/_build
