# Two commands: `make replay` replays a workload and writes a report, `make test` runs every check's tests.
# Each makes its own .venv and installs what it needs; the first needs no test tools and no torch.

PYTHON ?= python3
PIP := .venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: replay test lint bench clean

replay: .venv/replay
	.venv/bin/schedlab replay --out runs/first

test: .venv/dev
	.venv/bin/python -m pytest -n 2 --dist loadfile

lint: .venv/dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

bench: .venv/replay
	.venv/bin/python -m experiments.bench

clean:
	rm -rf .venv runs

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/replay: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) --editable .
	touch $@

.venv/dev: .venv/replay
	$(PIP) --editable '.[dev]'
	touch $@
