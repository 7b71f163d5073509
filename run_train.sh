#!/usr/bin/env bash
# Trains in the current folder. In a fresh clone it first brings what is missing and builds; later runs start at once.
#
#   ./run_train.sh
#   NGPU=4 CONFIG_FILE=configs/llama3_debug.toml LOG_RANK=0,1 ./run_train.sh --training.steps=20
#
# RONDO_PRESET what is built and run: cuda where a GPU and nvcc are here, else cpu
# NGPU         ranks on this machine (2; with cuda one a GPU)
# CONFIG_FILE  the run (configs/llama3_debug.toml); relative to the current folder, or to the project
# LOG_RANK     whose lines are shown (0)
# LAUNCH_ARGS  more words for `rondo launch`, e.g. "--max-restarts 1"
# Every further word overrides a key of the config: --section.key=value.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/scripts/env.sh"

config=${CONFIG_FILE:-configs/llama3_debug.toml}
[[ -e $config || $config == /* ]] || config=$RONDO_ROOT/$config

preset=$(rondo_preset)
ranks=2 needs=()
[[ $preset == cuda ]] && ranks=gpu needs=(--cuda)
"$RONDO_ROOT/scripts/setup.sh" "${needs[@]}"
"$RONDO_ROOT/scripts/build.sh" "$preset" rondo rondo-worker
# shellcheck disable=SC2086  # LAUNCH_ARGS is several words
exec "$RONDO_ROOT/build/$preset/rondo" launch --nproc-per-node "${NGPU:-$ranks}" --local-ranks-filter "${LOG_RANK:-0}" \
  ${LAUNCH_ARGS:-} -- train --job.config_file="$config" "$@"
