#!/usr/bin/env bash
# Every shell script of the project parses, and shellcheck, where it is installed, finds nothing to warn of.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=tests/scripts/check.sh
source "$root/tests/scripts/check.sh"
cd "$root" || exit 1

mapfile -t scripts < <(find run_train.sh .ci scripts tests -type f \
  \( -name '*.sh' -o -name '*.slurm' -o -path '.ci/run' \) | sort)
for script in "${scripts[@]}"; do
  shell=bash
  head -n 1 "$script" | grep -q '^#!/bin/sh' && shell="sh"
  check "$script parses" "$shell" -n "$script"
done
if command -v shellcheck >/dev/null; then
  check "shellcheck has no warnings" shellcheck --external-sources --severity=warning "${scripts[@]}"
else
  echo "not checked: shellcheck is not installed"
fi

check_summary
