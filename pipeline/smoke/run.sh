#!/usr/bin/env bash
# Runs the project's own dvc.yaml on a handful of drawn clips in build/smoke, real MediaPipe and
# MLflow included, and fails if a stage does, if a second run finds anything to do, or if the model
# has not learnt its clips by heart. The report compares the scores with themselves, kept before.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=${1:-$root/build/smoke}
case "$work" in /*) ;; *) work=$PWD/$work ;; esac  # macOS has no `realpath -m`
if [ -e "$work" ] && [ ! -e "$work/.signloom-smoke" ]; then
  echo "smoke: $work exists and is not an earlier smoke run; give another folder" && exit 1
fi
rm -rf "$work"
mkdir -p "$work/data/demo" "$work/reports/judgements" "$work/docs"
touch "$work/.signloom-smoke"
cp -r "$root/src" "$root/pipeline" "$root/dvc.yaml" "$root/.dvcignore" "$work/"
cp "$root/pipeline/smoke/params.yaml" "$root/pipeline/smoke/ops.yaml" "$work/"
cp "$root/data/start.yaml" "$work/data/"
cp "$root/docs/demo.ipynb" "$work/docs/"
cp "$root/data/demo/dvc.yaml" "$work/data/demo/dvc.yaml"
cp "$root/pipeline/smoke/draw.yaml" "$work/data/demo/params.yaml"
cd "$work"
unset MLFLOW_TRACKING_URI
dvc init --quiet --no-scm
dvc config core.analytics false
dvc repro evaluate
signloom scores
dvc repro
dvc repro | tee again.txt
grep -q 'up to date' again.txt || { echo "smoke: a second dvc repro found something to do"; exit 1; }
dvc metrics show
# A stage does not wait for its records to reach MLflow; this does.
signloom upload-runs
python -m pipeline.smoke.check
