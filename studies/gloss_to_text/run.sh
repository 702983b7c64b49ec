#!/usr/bin/env bash
# Glosses to German: a folder with phoenix14t.{train,dev,test}.tsv (name, signer, gloss, text) comes
# in; checkpoints of three seeds, their scores and the report go out in build/gloss_to_text. Of the
# project only studies/gloss_to_text/results.json changes, which holds numbers alone.
#
# Usage: studies/gloss_to_text/run.sh TABLES [WORK [STAGE...]]
# Stages, all by default: check extract tokenize_targets train evaluate report; `tune` searches, and
# `signloom adopt` in WORK takes over what it found.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
tables=$(realpath "${1:?"Usage: studies/gloss_to_text/run.sh TABLES [WORK [STAGE...]]"}")
work=$(realpath -m "${2:-$root/build/gloss_to_text}")
stages=("${@:3}")
[ ${#stages[@]} -gt 0 ] || stages=(check extract tokenize_targets train evaluate report)
if [ -e "$work" ] && [ ! -e "$work/.signloom-gloss-to-text" ]; then
  echo "gloss_to_text: $work exists and is not an earlier run; give another folder" && exit 1
fi
# An earlier run's data is kept: training goes on from it, if it is of this recipe.
recipe=$(cat "$root"/studies/gloss_to_text/{params.yaml,units.py} | sha256sum)
if [ -e "$work" ] && [ "$(cat "$work/.signloom-gloss-to-text")" != "$recipe" ]; then
  echo "gloss_to_text: $work is of another version of this study; give another folder" && exit 1
fi
mkdir -p "$work"
echo "$recipe" > "$work/.signloom-gloss-to-text"
rm -rf "$work/src" "$work/pipeline" "$work/studies" "$work/data/raw"
cp -r "$root/src" "$root/pipeline" "$root/studies" "$work/"
# What `signloom adopt` wrote after a search stays.
[ -e "$work/params.yaml" ] || cp "$root/studies/gloss_to_text/params.yaml" "$work/"
cd "$work"
export PYTHONPATH="$work/src"
signloom init data/raw/phoenix14t_text --text-only --set language=de --table \
  train="$tables/phoenix14t.train.tsv" dev="$tables/phoenix14t.dev.tsv" \
  test="$tables/phoenix14t.test.tsv"
python -m studies.gloss_to_text.units
for stage in "${stages[@]}"; do
  python -m "pipeline.$stage"
done
if [[ " ${stages[*]} " == *" evaluate "* ]]; then
  python -m studies.gloss_to_text.run
  cp reports/studies/gloss_to_text/results.json "$root/studies/gloss_to_text/"
fi
