# `make` lists the targets. Everything runs in .venv, which `make setup` fills from constraints.txt.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup hooks format check test test-all test-newest demo smoke repro report ui bench attack clean

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
STAMP := .venv/.installed
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Neither DVC nor MLflow reports home: see .dvc/config and signloom.tracking for the same setting.
export DVC_NO_ANALYTICS := true
export MLFLOW_DISABLE_TELEMETRY := true
export DO_NOT_TRACK := true

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

setup: $(STAMP)  ## make .venv and install the locked packages

$(STAMP): constraints.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "Signloom needs Python 3.11 or 3.12; install one or run make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(v not in ((3, 11), (3, 12), (3, 13)) and f"Signloom needs Python 3.11 to 3.13, found {v[0]}.{v[1]}; run make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv .venv
	@# uv, where there is one, takes a tenth of pip's time, and a torch without CUDA where no GPU is.
	@if command -v uv >/dev/null && uv pip install --python .venv/bin/python --torch-backend auto \
		--constraint constraints.txt --editable ".[dev]"; then :; else \
		.venv/bin/python -m pip install --quiet --upgrade "pip>=25" && \
		.venv/bin/python -m pip install --progress-bar on --constraint constraints.txt --editable ".[dev]"; \
	fi
	@.venv/bin/python -c 'import cv2' || { echo "OpenCV, which mediapipe needs, lacks a system library: apt-get install libgl1 libglib2.0-0 (Debian, Ubuntu) or dnf install mesa-libGL glib2 (Fedora), then make again"; exit 1; }
	@touch $@

hooks: setup  ## for contributors: format, lint and types before each commit
	pre-commit install

format: setup  ## repair what ruff can repair
	ruff check --fix .
	ruff format .

check: setup  ## format, lint, types, import contracts
	ruff format --check .
	ruff check .
	mypy
	mypy --platform win32 --cache-dir .mypy_cache/win32
	mypy --platform darwin --cache-dir .mypy_cache/darwin
	lint-imports

# Tests start many processes, which would all compile the same sources.
test test-all: export PYTHONDONTWRITEBYTECODE :=

test: setup  ## fast tests (about 5 minutes on two cores)
	python -m pytest -n auto --maxprocesses 4 --dist worksteal --durations 12

# Checked where signatures name them, which costs a third more CPU time.
SHAPES := --jaxtyping-packages=signloom.models,signloom.training,signloom.translation,signloom.features,beartype.beartype

# A test of real processes may fail beside three others on a full machine: in CI it must pass alone,
# and both summaries name it. Exit code 1: all tests ran, and some failed.
test-all: setup  ## every test, the slow ones too, with the shapes of tensors (about half an hour on two cores)
	python -m pytest -m "" $(SHAPES) -n auto --maxprocesses 4 --dist worksteal --durations 30 || \
		{ test $$? -eq 1 -a -n "$$CI" && \
		python -m pytest -m "" $(SHAPES) --last-failed --last-failed-no-failures none; }

test-newest:  ## fast tests of the wheel with the newest packages, without constraints.txt (PYTHON=python3.12)
	bash pipeline/ci/newest.sh $(PYTHON)

demo: setup  ## draw a corpus, run the whole pipeline on it, print the scores
	dvc repro

smoke: setup  ## the same stages on a handful of clips (under 2 minutes)
	bash pipeline/smoke/run.sh

repro: setup  ## dvc repro: run what changed
	dvc repro

report: setup  ## build the report again
	dvc repro --force --single-item report

ui: setup  ## mlflow ui on port 5000
	mlflow ui --host 127.0.0.1 --workers 1

bench: setup  ## measure and write reports/benchmarks/
	python -m tests.bench

attack: setup  ## bad inputs to every command, clients of the app, power cuts (docs/benchmarks.md)
	python -m tests.attack.run --write
	python -m tests.attack.app
	python -m tests.attack.night

clean:  ## remove what the stages wrote (not .venv, not data/raw)
	rm -rf data/demo/corpus data/landmarks data/tokens data/checkpoint data/.tracking reports/tune \
		reports/evaluation reports/figures reports/index.html mlflow.db mlruns optuna.db*
