#!/usr/bin/env bash
# A night for cron: `signloom retrain` in the project that this file lies in. Says nothing of a night
# that went well (0 new champion, 3 nothing new, 4 challenger refused), all of any other.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
# Cron has neither; keys of the remote and of a webhook stand in the file, NAME=value a line.
export PATH="$PWD/.venv/bin:${PATH:-/usr/bin:/bin}" LANG="${LANG:-C.UTF-8}"
if [ -r "${SIGNLOOM_ENV:=/etc/signloom/retrain.env}" ]; then
  set -a
  # shellcheck disable=SC1090
  . "$SIGNLOOM_ENV"
  set +a
fi
said=$(nice -n 10 signloom retrain "$@" 2>&1)
code=$?
case $code in
  0 | 3 | 4) exit 0 ;;
esac
echo "signloom retrain ended with exit code $code in $PWD"
echo "$said"
exit "$code"
