#!/usr/bin/env bash
# Runs the whole demo twice from empty caches in two clones and compares every output's hash.
# Takes as long as two `make demo`. Usage: bash tests/bench/reproduce.sh [FOLDER]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(realpath -m "${1:-$root/build/reproduce}")
export PATH=$root/.venv/bin:$PATH
if [ -e "$work" ] && [ ! -e "$work/first/dvc.yaml" ]; then
  echo "$work exists and is not an earlier run; give another folder" && exit 1
fi
rm -rf "$work"
for run in first second; do
  git clone --quiet "$root" "$work/$run"
  # The clone's own code, not what is installed in .venv.
  (cd "$work/$run" && PYTHONPATH=$work/$run/src:$work/$run dvc repro --force --no-run-cache)
  grep -hE 'path:|md5:' "$work/$run/dvc.lock" "$work/$run/data/demo/dvc.lock" >"$work/$run.txt"
done
if diff "$work/first.txt" "$work/second.txt"; then
  echo "same bytes: $(grep -c 'md5:' "$work/first.txt") hashes of inputs and outputs agree"
else
  echo "the two runs differ" && exit 1
fi
