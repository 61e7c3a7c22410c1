# Every target installs what it needs into .venv, once.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test check format clean

help:
	@echo "make demo    PPO against PPO+REVD on MountainCar: a table and a learning curve, in minutes"
	@echo "make test    the tests, with line coverage"
	@echo "make check   ruff (lint and format), mypy --strict, the direction of the imports"
	@echo "make format  let ruff rewrite what it can"
	@echo "make clean   remove .venv and caches (never runs/)"

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.demo: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e ".[plots]"
	@touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e ".[dev]"
	@touch $@ .venv/.demo

demo: .venv/.demo
	$(BIN)/revd demo

test: .venv/.dev
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term

check: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_imports.py

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
