#!/usr/bin/env bash
# Trains. In a fresh clone it first brings what is missing and builds; later runs start at once.
#
#   ./run_train.sh
#   NGPU=4 CONFIG_FILE=configs/llama3_debug.toml LOG_RANK=0,1 ./run_train.sh --training.steps=20
#
# RONDO_PRESET what is built and run: cuda where a GPU and nvcc are here, else cpu
# NGPU         ranks on this machine (2; with cuda one a GPU)
# CONFIG_FILE  the run (configs/llama3_debug.toml); relative to the current folder, or to the project
# LOG_RANK     whose lines are shown (0)
# LAUNCH_ARGS  more words for `rondo launch`, e.g. "--max-restarts 1"
# Every further word overrides a key of the config: --section.key=value. Paths in them are relative to the current folder.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/scripts/env.sh"

# Puts the current folder before each relative path of a comma-separated list.
from_here() {
  local path list='' paths=()
  IFS=, read -ra paths <<<"$1"
  for path in "${paths[@]}"; do
    path=${path# }
    [[ $path == /* || $path == auto || $path == bytes || -z $path ]] || path=$PWD/$path
    list+=,$path
  done
  echo "${list:1}"
}
takes_path() {
  case ${1//-/_} in
    __job.config_file | __job.dump_folder | __model.hf_config | __model.hf_assets_path | __training.dataset_path | \
      __training.token_cache | __training.tokenizer | __validation.dataset_path | __checkpoint.initial_load_path | \
      __metrics.prometheus_file | __compile.matmul_algorithms) return 0 ;;
  esac
  return 1
}

config=${CONFIG_FILE:-configs/llama3_debug.toml}
[[ -e $config ]] && config=$(realpath "$config")
words=() flag=''
for word in "$@"; do
  if [[ -n $flag ]]; then
    word=$(from_here "$word") flag=''
  elif takes_path "${word%%=*}"; then
    if [[ $word == *=* ]]; then word=${word%%=*}=$(from_here "${word#*=}"); else flag=$word; fi
  fi
  words+=("$word")
done
cd "$RONDO_ROOT"

preset=$(rondo_preset)
ranks=2 needs=()
[[ $preset == cuda ]] && ranks=gpu needs=(--cuda)
scripts/setup.sh "${needs[@]}"
scripts/build.sh "$preset" rondo rondo-worker
# shellcheck disable=SC2086  # LAUNCH_ARGS is several words
exec "build/$preset/rondo" launch --nproc-per-node "${NGPU:-$ranks}" --local-ranks-filter "${LOG_RANK:-0}" ${LAUNCH_ARGS:-} \
  -- train --job.config_file="$config" "${words[@]}"
