#!/usr/bin/env bash
# scripts/check.sh [--all]: what should hold before a commit, in about a minute: the format of all sources, clang-tidy on
# the sources that differ from the last commit (--all: on every source), and the house test, which is built where needed.
# Exit code 1 says that something does not hold; 6, that a tool is missing.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$RONDO_ROOT"

case ${1:-} in
  --all) changed() { git ls-files '*.cpp'; } ;;
  "") changed() { { git diff --name-only --diff-filter=d HEAD -- '*.cpp' && git ls-files -o --exclude-standard '*.cpp'; }; } ;;
  -h | --help) sed -n '2,4s/^# //p' "$0" && exit 0 ;;
  *) echo "check: unknown option \"$1\"; it is --all or nothing" >&2 && exit 2 ;;
esac
for tool in clang-format clang-tidy; do
  command -v $tool >/dev/null || { echo "check: $tool is not installed; apt-get install $tool" >&2 && exit 6; }
done

failed=0
git ls-files -z '*.cpp' '*.h' '*.cu' '*.cuh' | xargs -0 clang-format --dry-run -Werror || failed=1
scripts/build.sh cpu house_test
# A command for each source, where the build compiles several at a time.
cmake --preset cpu -B build/tidy -DRONDO_UNITY=OFF >/dev/null
ninja -C build/tidy --quiet models/generated/models/embedded_sizes.h \
  compiler/generated/compiler/plan/report/memory_timeline_page.h \
  parallel/generated/parallel/pipeline/schedule_page.h \
  runs/generated/runs/report_html.h
changed | grep -Fxf <(sed -n "s|^  \"file\": \"$RONDO_ROOT/\(.*\)\".*|\1|p" build/tidy/compile_commands.json) |
  xargs -r -P "$(nproc)" -n 1 clang-tidy --quiet -p build/tidy --extra-arg=-Wno-unknown-warning-option || failed=1
build/cpu/tests/house_test || failed=1
((failed == 0)) && echo "check: all of it holds"
exit "$failed"
