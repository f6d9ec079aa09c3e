# Every target makes .venv when it is missing or older than pyproject.toml.
PYTHON  ?= $(shell command -v python3.11 || command -v python3)
VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
JOBS    ?= 2
TYPED   := $(wildcard src tests benchmarks examples) tools/budget_check.py
WINDOWS := $(addprefix src/holdfast/stores/sqlite/,latches.py write_lock.py)
LINTED  := $(wildcard src tests benchmarks examples tools)

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format-check lint types imports rooms budget bench soak format clean

help: ## show this list
	@sed -nE 's/^([a-z-]+):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@

setup: $(STAMP) ## make .venv with the project and its development tools

demo: $(STAMP) ## tell a short story with a real memory
	$(BIN)/python examples/story.py

test: check ## check, then all tests with branch coverage
	$(BIN)/python -m pytest -n $(JOBS) -m "not soak" --cov --cov-report=term

check: format-check lint types imports rooms budget ## everything a machine can judge without running the code

format-check: $(STAMP)
	$(BIN)/ruff format --check $(LINTED)

lint: $(STAMP)
	$(BIN)/ruff check $(LINTED)

types: $(STAMP)
	$(BIN)/mypy $(TYPED)
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 --follow-imports=silent $(WINDOWS)
	$(BIN)/pyright --warnings

imports: $(STAMP)
	$(BIN)/lint-imports --no-logo --no-cache

rooms: $(STAMP)
	$(BIN)/python tools/house.py look src/holdfast --order tools/rooms.txt \
		--deferred --typing --fail-on cycles,upward,private,undeclared

budget: $(STAMP)
	$(BIN)/python tools/budget_check.py

bench: $(STAMP) ## measure speed and recall
	$(BIN)/python -m benchmarks

soak: $(STAMP) ## long tests with random seeds
	$(BIN)/python -m pytest -n $(JOBS) -m soak --hypothesis-profile=soak --timeout=1800 \
		|| test $$? -eq 5 # pytest's way of saying that there is none yet

format: $(STAMP) ## rewrite the code in the house style
	$(BIN)/ruff format $(LINTED)
	$(BIN)/ruff check --fix $(LINTED)

clean: ## remove everything that was made
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache \
		.mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
