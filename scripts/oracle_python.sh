#!/usr/bin/env bash
# scripts/oracle_python.sh ARGUMENTS...: python3 with the packages that tests compare with (scripts/oracles.txt) and
# PyTorch of the same wheel that the program links. Exit 6 when `scripts/setup.sh --oracles` has not been run.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
deps=$RONDO_ROOT/.deps

if [[ ! -d $deps/oracles ]]; then
  echo "oracle_python: error: no Python packages to compare with; run scripts/setup.sh --oracles" >&2
  exit 6
fi
torch=$(<"$deps/torch.path")
[[ -e $torch/__init__.py ]] || torch=$deps/python/torch
export PYTHONPATH=$deps/oracles:${torch%/*}:$deps/python
# Stand-ins for the CUDA libraries that `import torch` loads and a CPU run never calls.
export LD_LIBRARY_PATH=$deps/cuda_stand_ins${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec python3 "$@"
