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

jobs=$(jobs_at_once "$(nproc)" 1572864)
# Progress with the time left: on a terminal one line that is overwritten, elsewhere a line for each tenth of the build.
NINJA_STATUS='[%f %t %e] ' ninja -C "build/$preset" -j "$jobs" "$@" |
  awk -v terminal="$([[ -t 1 ]] && echo yes)" '
  function time_text(s) { return s < 90 ? int(s) " s" : int(s / 60 + 0.5) " min" }
  /^ninja: (Entering directory|no work to do)/ { next }
  !/^\[[0-9]+ [0-9]+ [0-9.]+\] / { if (terminal) printf "\r\033[K"; print; fflush(); next }
  {
    done = substr($1, 2) + 0; total = $2 + 0; seconds = $3 + 0; tenth = int(10 * done / total)
    if (done < last) shown = 0  # what ninja did so far was to read the project anew
    last = done
    if (done == 0) next
    text = "built " done " of " total " steps in " time_text(seconds)
    if (done < total) text = text ", about " time_text(seconds * (total - done) / done) " left"
    if (terminal) printf "\r%s\033[K%s", text, done < total ? "" : "\n"
    else if (tenth > shown) print text
    shown = tenth
    fflush()
  }'
