#!/usr/bin/env bash
# scripts/build.sh [PRESET [TARGET...]]: configures a CMake preset where that was not done yet, and builds.
# A file that includes LibTorch takes up to 1.5 GB to compile, so memory limits the jobs as cores do.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$RONDO_ROOT"

preset=${1:-cpu}
shift || true
[[ -e build/$preset/build.ninja ]] || cmake --preset "$preset"

cores=$(nproc)
memory_jobs=$(awk '/^MemAvailable/ { print int($2 / 1572864) }' /proc/meminfo)
jobs=$((memory_jobs < cores ? memory_jobs : cores))
build=(ninja -C "build/$preset" -j "$((jobs > 0 ? jobs : 1))")
# Progress on a terminal is one line that ninja overwrites; elsewhere it is a line for each tenth of the build.
if [[ -t 1 ]]; then
  NINJA_STATUS='[%f/%t, %es] ' exec "${build[@]}" "$@"
fi
NINJA_STATUS='[%f/%t, %es] ' "${build[@]}" "$@" | awk -F '[][/,]' '
  /^ninja: (Entering directory|no work to do)/ { next }
  !/^\[[0-9]+\/[0-9]+, / { print; fflush(); next }
  int(10 * $2 / $3) > tenth { tenth = int(10 * $2 / $3); print "built " $2 " of " $3 " steps," $4; fflush() }'
