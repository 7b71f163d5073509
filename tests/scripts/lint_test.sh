#!/usr/bin/env bash
# Every shell script of the project parses, shellcheck, where it is installed, finds nothing to warn of, and sources have
# the format of .clang-format. Another clang-format than 14 breaks lines in other places.
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

if clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
  mapfile -t sources < <(find support ops launch parallel datasets models compiler checkpoint config runs trainer plan \
    prove apps tests -type f \
    \( -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \))
  check "sources are formatted" clang-format --dry-run -Werror "${sources[@]}"
else
  echo "not checked: clang-format 14 is not installed"
fi

check_summary
