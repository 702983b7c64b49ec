#!/usr/bin/env bash
# Measures what the docs state and keeps it in reports/benchmarks/, each as a table and as JSON.
# Needs the demo corpus and its landmarks (`make demo`), idle cores, and about an hour and a half on
# two. `real_presence` and `side_rules` need real footage too, `gpu` a CUDA device; they are run by
# hand.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=reports/benchmarks
mkdir -p "$out"
python -m tests.bench.shards --out "$out"
for name in demo_detection extraction new_clips; do
  python -m "tests.bench.$name" --out "$out/$name.json" | tee "$out/$name.md"
done
for name in loss training loader scaling reversal report translate; do
  python -m "tests.bench.$name" --out "$out"
done
python -m tests.bench.decoding --out "$out"  # an hour more
