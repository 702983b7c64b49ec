#!/usr/bin/env bash
# Runs the quick tests as they are for somebody who installs the wheel with pip: with the newest
# packages that its ranges allow, in an environment that is removed afterwards.
# Usage: newest.sh PYTHON [ARGUMENTS OF PYTEST]
set -euo pipefail
python=$(command -v "$1")
shift
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PIP_CONSTRAINT PYTHONPATH
export SIGNLOOM_MODELS=$work/networks

"$python" -m venv "$work/env"
export PATH=$work/env/bin:$PATH
# The pip of older Pythons tries versions for many minutes where a newer one takes seconds.
python -m pip install --quiet --upgrade pip
mkdir "$work/source" # building leaves folders behind
git ls-files -z --cached --others --exclude-standard | tar c --null --files-from - | tar x -C "$work/source"
python -m pip wheel --quiet --no-deps --wheel-dir "$work" "$work/source"
python -m pip install --quiet "$(echo "$work"/signloom-*.whl)[dev]"
python -m pip list
if ! python -m pip show --quiet mediapipe; then
  python -m pip download --quiet --no-deps --only-binary :all: --python-version 3.12 \
    --platform manylinux_2_28_x86_64 --dest "$work" mediapipe==0.10.21
  signloom landmarks --networks "$work"/mediapipe-*.whl
fi
export PYTHONDONTWRITEBYTECODE=1
python -m pytest -n auto --maxprocesses 4 --dist worksteal -p no:cacheprovider "$@"
