#!/usr/bin/env bash
# Bring the commits of others under our own and under what nights changed without a commit
# (commit: false in ops.yaml). Where both changed the same lines everything stays as it was before, and
# a person has to look: for Git a pull went well whose stash it could not bring back.
set -euo pipefail
main() {
  local branch=$1 before mine
  before=$(git rev-parse HEAD)
  if ! git pull --rebase --autostash origin "$branch"; then
    git rebase --abort 2> /dev/null || true
    echo "::error::the pull failed, see above; $PWD is as it was"
    return 1
  fi
  mine=$(git ls-files --unmerged | cut -f 2 | sort -u | paste -sd ' ')
  if [ -n "$mine" ]; then
    git reset --quiet --hard "$before"
    git stash pop --quiet
    echo "::error::in $PWD these were changed without a commit and others changed them, too: $mine;" \
      "commit them there (\`git commit\`, \`git pull --rebase\`) or give them up (\`git checkout\`)"
    return 1
  fi
}
main "$@"
exit # the pull may have replaced this file
