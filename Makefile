VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed

# On a busy machine the threads of a small matrix product wait for one another.
export OPENBLAS_NUM_THREADS ?= 1
# Each of the processes that tests start would compile the packages' source anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-all test-models lint docs bench changelog clean

$(INSTALLED): pyproject.toml constraints.txt
	@echo "Installing wickgarten and all that it needs into $(VENV): a few minutes, once."
	@echo "Step 1 of 2: a virtual environment, by $$(python3 --version)"
	test -x $(PY) || python3 -m venv $(VENV)
	@echo "Step 2 of 2: some $$(grep -c == constraints.txt) packages, a line for each that is fetched;" \
		"the last step of pip's, where all are unpacked, says nothing for a minute"
	$(PY) -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@echo "Installed. Kernels are compiled when they are first called, and kept for the next time."
	touch $@

run: $(INSTALLED)
	@echo "Proving the book, a line for each claim; the pages come to report/."
	$(VENV)/bin/wickgarten check

test: $(INSTALLED)
	$(PY) -m pytest -n auto --dist loadscope

# New processes for the slow tests, twice: what one holds grows with the kernels that it compiled.
test-all: test
	$(PY) -m pytest -n auto --dist loadscope -m slow tests/numeric
	$(PY) -m pytest -n auto --dist loadscope -m slow --ignore=tests/numeric

# The frameworks that models come from: some 3 GB, in an environment of their own.
test-models:
	test -x .venv-models/bin/python || python3 -m venv .venv-models
	.venv-models/bin/python -m pip install --disable-pip-version-check -c constraints.txt \
		-e '.[test,plot,torch,jax,keras]' pytest-benchmark
	.venv-models/bin/python -m pytest tests/init tests/numeric/test_models*.py tests/test_docs.py \
		tests/test_notebooks.py \
		-k "init or frameworks or model or notebooks" -m 'slow or not slow'

lint: $(INSTALLED)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

docs: $(INSTALLED)
	@echo "Building the manual, a line for each page; it comes to docs/_build/."
	$(PY) -m sphinx -W --keep-going docs docs/_build
	@echo docs/_build/index.html

bench: $(INSTALLED)
	$(PY) -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev,bench]'
	# It needs TensorFlow, more than half a gigabyte: where that is missing the table says so.
	-$(PY) -m pip install --disable-pip-version-check --no-deps neural-tangents==0.6.5 \
		absl-py frozendict
	$(PY) -m pytest tests/benchmarks --benchmark-only --benchmark-autosave \
		--benchmark-storage=file://./benchmarks
	$(PY) tests/benchmarks/tabulate.py benchmarks docs/benchmarks.md

changelog: $(INSTALLED)
	$(PY) changes/gather.py

clean:
	rm -rf $(VENV) docs/_build
