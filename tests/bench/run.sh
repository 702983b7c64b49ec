#!/usr/bin/env bash
# Measures what the docs state and keeps it in reports/benchmarks/, each as a table and as JSON.
# Needs the demo corpus and its landmarks (`make demo`), idle cores, and about an hour on two.
# `real_presence` and `side_rules` need real footage too and are run by hand.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=reports/benchmarks
mkdir -p "$out"
python -m tests.bench.shards --out "$out"
for name in demo_detection extraction; do
  python -m "tests.bench.$name" --out "$out/$name.json" | tee "$out/$name.md"
done
python -m tests.bench.decoding --out "$out"  # an hour more
