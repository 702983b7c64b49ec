#!/usr/bin/env bash
# The whole pipeline on real videos: a folder with KSL-77's labels.csv and videos/ comes in, a
# checkpoint, its scores and the report go out in build/ksl77. Nothing of the project changes.
#
# Usage: studies/ksl77/run.sh DATA [WORK]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
data=$(realpath "${1:?"Usage: studies/ksl77/run.sh DATA [WORK]"}")
work=$(realpath -m "${2:-$root/build/ksl77}")
if [ -e "$work" ] && [ ! -e "$work/.signloom-ksl77" ]; then
  echo "ksl77: $work exists and is not an earlier run; give another folder" && exit 1
fi
mkdir -p "$work"
touch "$work/.signloom-ksl77"  # an earlier run's data/cache is kept: only what changed is extracted
rm -rf "$work/src" "$work/pipeline" "$work/studies" "$work/data/raw"
cp -r "$root/src" "$root/pipeline" "$root/studies" "$root/params.yaml" "$work/"
cd "$work"
signloom init data/raw/ksl77 --videos "$data/videos" --table "$data/labels.csv" \
  --column text=word video=small split=example --splits 1=train 2=dev \
  --set signer=unknown language=en --use
for stage in check extract tokenize_targets train evaluate report; do
  python -m "pipeline.$stage"
done
echo "open $work/reports/index.html"
