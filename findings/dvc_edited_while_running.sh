#!/usr/bin/env bash
# Believed: dvc.lock holds the parameters with which a stage made its outputs.
# Happens:  DVC reads them when the command has ended. A parameter that is edited meanwhile is
#           recorded for outputs that were made with the old value: exit code 0, "up to date", and
#           the run cache serves these outputs for the new value.
# Version:  dvc 3.67.1, November 2026.
# Source:   Stage.save in dvc/stage/__init__.py; https://github.com/treeverse/dvc/issues/11058
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check dvc==3.67.1
export PATH="$folder/venv/bin:$PATH" DVC_NO_ANALYTICS=1 DVC_GLOBAL_CONFIG_DIR="$folder/global"
export DVC_SYSTEM_CONFIG_DIR="$folder/system" DVC_SITE_CACHE_DIR="$folder/site"
mkdir "$folder/project"
cd "$folder/project"
dvc init --quiet --no-scm
cat > train.py <<'PYTHON'
import time
from pathlib import Path

rate = Path("params.yaml").read_text().split()[1]
Path("begun").touch()
for _ in range(600):  # a minute at most
    if Path("edited").exists():
        break
    time.sleep(0.1)
Path("weights").write_text(f"trained with {rate}\n")
PYTHON
cat > dvc.yaml <<'YAML'
stages:
  train:
    cmd: python train.py
    deps: [train.py]
    params: [rate]
    outs: [weights]
YAML
echo "rate: 0.002" > params.yaml
dvc repro --quiet &
until [ -e begun ]; do
    kill -0 $! 2>/dev/null || { echo "dvc repro ended before the command began" >&2; exit 1; }
    sleep 0.2
done
echo "rate: 0.0001" > params.yaml
touch edited
wait $!
weights=$(cat weights)
recorded=$(grep 'rate:' dvc.lock | tr -d ' ')
status=$(dvc status 2>/dev/null)
rm weights dvc.lock
dvc repro --quiet
from_cache=$(cat weights)
echo "the weights were $weights; dvc.lock says $recorded; dvc status: $status"
echo "without dvc.lock and weights, asked for $(cat params.yaml): $from_cache"
if [ "$weights" != "trained with 0.002" ] || [ "$recorded" != "rate:0.0001" ] ||
    [ "$status" != "Data and pipelines are up to date." ] || [ "$from_cache" != "trained with 0.002" ]; then
    echo "changed" >&2
    exit 1
fi
echo "as described"
