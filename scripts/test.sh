#!/usr/bin/env bash
# scripts/test.sh [--quick | --full]: sets up, builds everything and runs the suite. The last lines are ctest's summary.
#   --quick  what is fast (under 2 minutes)
#   --full   everything, the whole matrix too
#   neither  everything but the matrix (under 15 minutes)
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$RONDO_ROOT"

case ${1:-} in
  --quick) selection=(-L quick) ;;
  --full) selection=() ;;
  "") selection=(-LE full) ;;
  *) echo "test: unknown option \"$1\"; it is --quick, --full or nothing" >&2 && exit 2 ;;
esac

scripts/setup.sh --oracles
scripts/build.sh cpu
echo "test: set-up and build took $SECONDS s"
# One test more than cores, since some wait for a time: a rank that hangs, a server that fails.
exec ctest --test-dir build/cpu --output-on-failure --parallel "$(jobs_at_once $(($(nproc) + 1)) 2097152)" "${selection[@]}"
