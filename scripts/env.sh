# shellcheck shell=bash
# Sourced by the scripts that build: where the project is, and the tools that set-up unpacked beside it.
RONDO_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ -d $RONDO_ROOT/.deps/bin ]] && PATH=$RONDO_ROOT/.deps/bin:$PATH
export RONDO_ROOT PATH

# The preset that this machine is for: cuda where a GPU and nvcc are, else cpu. RONDO_PRESET decides otherwise.
rondo_preset() {
  if [[ -n ${RONDO_PRESET:-} ]]; then
    echo "$RONDO_PRESET"
  elif compgen -G '/dev/nvidia[0-9]*' >/dev/null &&
    { command -v nvcc >/dev/null || [[ -x ${CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]]; }; then
    echo cuda
  else
    echo cpu
  fi
}

# jobs_at_once MAX KIB: prints how many jobs that take KIB of memory each can run, from 1 to MAX.
jobs_at_once() {
  awk -v max="$1" -v each="$2" '
    /^MemAvailable/ { jobs = int($2 / each); print jobs < 1 ? 1 : jobs < max ? jobs : max }' /proc/meminfo
}
