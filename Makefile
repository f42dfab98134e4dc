# `make tune` and `make test` are all one needs; both create the virtual environment when it is missing.
# CONTRIBUTING.md says what `make test` and `make test-all` check.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# Images often set it; then each of the many processes would compile this project's source for itself.
unexport PYTHONDONTWRITEBYTECODE
# Tests share the processors already; threads of linear algebra would wait for each other.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
PYTEST = $(ONE_THREAD) $(BIN)/pytest -n 3 --durations 20

.PHONY: tune test thorough test-all clean

tune: $(INSTALLED)
	$(BIN)/python -m autosync.tune --model bert --framework pytorch --emulate topologies/paced_two_racks.yaml --or-local \
	    --trials 40 --time-budget 210 --warmup 2 --steps 10 --rounds 4

test: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST)

thorough: $(INSTALLED)
	$(PYTEST) -m thorough $(LIMIT)

test-all: test thorough

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo "autosync needs Python 3.10 or newer; set PYTHON=/path/to/python3."; exit 1; }
	@$(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || \
	    { echo "A virtual environment could not be made; on Debian: apt install python3-venv."; exit 1; }
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt torch
# A distribution called autosync is an older install of this project or a foreign one; either brings files of the same names.
	@$(BIN)/python -m pip uninstall --quiet --quiet --yes autosync
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
# pip would compile one file after the other. Some are for other versions of Python, and fail.
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib > /dev/null 2>&1 || true
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info
