# Each target installs what it needs into .venv, once.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test bench results notebook docs fuzz faults soak check format dist clean

help:
	@echo "make demo    PPO against PPO+REVD on MountainCar: a table and a learning curve, in minutes"
	@echo "make test    the tests, with branch coverage"
	@echo "make fuzz    tens of thousands of random arguments; only documented errors may be raised"
	@echo "make faults  kill trainings and suites 210 times, resume them, and count what was lost"
	@echo "make soak    two million steps in a cheap environment, to see whether memory grows"
	@echo "make bench   the speed of the neighbour search and the encoder against alternatives"
	@echo "make results redraw every figure and table of results/ that has an archive, and the pages that quote them"
	@echo "make docs    the documentation as a site in build/site; a broken link or a page outside the navigation fails"
	@echo "make notebook  execute examples/story.ipynb and keep its pictures"
	@echo "make check   ruff, mypy --strict, the direction of imports, the picture of the packages, whether pip resolves every extra"
	@echo "make format  fix and format with ruff"
	@echo "make dist    the package's files for PyPI in dist/, checked"
	@echo "make clean   remove .venv and caches (never runs/)"

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.demo: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e ".[cli,plots]"
	@touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e ".[dev]"
	@touch $@ .venv/.demo .venv/.docs

.venv/.docs: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e ".[docs]"
	@touch $@

# Without an answer from the index there is no stamp, and the next `make check` tries again.
.venv/.resolved: pyproject.toml constraints.txt tools/check_install.py | .venv/bin/python
	$(BIN)/python tools/check_install.py --stamp $@

.venv/.bench: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e ".[bench]"
	@touch $@

.venv/.release: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) build twine
	@touch $@

demo: .venv/.demo
	$(BIN)/revd demo

test: .venv/.dev
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term

fuzz: .venv/.dev
	$(BIN)/python -m pytest -n 2 -m fuzz --hypothesis-profile=fuzz tests/fuzz

faults: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults

soak: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/soak.py

bench: .venv/.bench
	$(BIN)/python benchmarks/neighbors.py
	$(BIN)/python benchmarks/encoder.py

results: .venv/.demo
	for archive in results/*/runs.csv.gz; do \
		$(BIN)/revd report $$archive --output $$(dirname $$archive)/README.md || exit 1; \
	done
	$(BIN)/python tools/results_page.py

docs: .venv/.docs
	rm -rf build/site
	$(BIN)/python -m sphinx --quiet --fresh-env --fail-on-warning --keep-going --conf-dir docs --doctree-dir build/doctrees . build/site
	@echo "build/site/index.html"

notebook: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python tools/run_notebook.py examples/story.ipynb

check: .venv/.dev .venv/.resolved
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_imports.py
	$(BIN)/python tools/draw_packages.py --check

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

dist: .venv/.release
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
