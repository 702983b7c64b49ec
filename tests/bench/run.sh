#!/usr/bin/env bash
# Measures what the docs state and keeps it in reports/benchmarks/, one file a day and commit.
# Needs the demo corpus (`make demo`). Some five minutes on 2 cores.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=reports/benchmarks
mkdir -p "$folder"
stem=$folder/$(date +%Y-%m-%d)-$(git rev-parse --short HEAD)
python -m tests.bench.demo_detection --out "$stem-demo_detection.json" | tee "$stem-demo_detection.txt"
