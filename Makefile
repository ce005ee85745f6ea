# Every target sets up what it needs in .venv; only python3 (3.11+) and make are required.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two workers suit the smallest machine we care for; `make test WORKERS=8` uses more.
WORKERS ?= 2

.PHONY: demo test test-long coverage lint docs format clean

demo: $(VENV)/.demo
	$(BIN)/ibp demo --output output/demo --force

test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(WORKERS) -m "not long"

test-long: $(VENV)/.test
	$(BIN)/python -m pytest -n $(WORKERS)

# Which lines no test reaches. Kernels count as reached where they run without compilation.
coverage: $(VENV)/.coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n $(WORKERS) -m "not long"
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

lint: $(VENV)/.lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going --quiet -b html docs output/docs
	@echo "Documentation: output/docs/index.html"

format: $(VENV)/.lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) output .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ibp needs Python 3.11 or newer; this is $$($(PYTHON) --version). Try: make PYTHON=python3.12 <target>"; exit 1; }
	@echo "Making a virtual environment in $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

# One stamp per set of extras: a target installs no more than it needs.
$(VENV)/.demo: EXTRAS := cli
$(VENV)/.test: EXTRAS := test
$(VENV)/.coverage: EXTRAS := coverage
$(VENV)/.lint: EXTRAS := test,lint
$(VENV)/.docs: EXTRAS := docs
$(VENV)/.demo $(VENV)/.test $(VENV)/.coverage $(VENV)/.lint $(VENV)/.docs: pyproject.toml | $(BIN)/python
	@echo "Installing ibp with [$(EXTRAS)]; the first time takes a minute ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $@
