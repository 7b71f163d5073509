#!/usr/bin/env bash
# Brings everything a build needs, beside the project where it can: LibTorch, Arrow, small libraries, the default corpus.
# Says one line a step; a second run with nothing to do ends at once. Nothing outside .deps/ and data/ is written,
# except system packages, which are installed when this may be done (root or password-free sudo).
#
# Exit codes: 0 done, 2 usage, 6 something is missing that set-up cannot bring (one message says what to type).
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
DEPS=$RONDO_ROOT/.deps

usage() {
  cat <<'TEXT'
scripts/setup.sh [--arrow] [--oracles] [--cuda] [--no-root] [--check]
  --arrow     not without Arrow, which reads Parquet; else set-up goes on where it cannot be downloaded
  --oracles   also the Python packages that tests compare with
  --cuda      also the NVIDIA libraries (and nvcc, where the machine has none)
  --no-root   install nothing on the system: unpack packages into .deps/root
  --check     only say what is there and what is missing; exit 6 if something is
Takes a LibTorch 2.11.0 that is there already (2.15.0 too, but not for CUDA): $TORCH_DIR, the active venv or conda environment, ./libtorch.
Takes an Arrow that is there already: $ARROW_DIR, the folder pyarrow beside LibTorch.
TEXT
}

want_arrow=0 want_oracles=0 want_cuda=0 no_root=0 check_only=0
for argument in "$@"; do
  case $argument in
    --arrow) want_arrow=1 ;;
    --oracles) want_oracles=1 ;;
    --cuda) want_cuda=1 ;;
    --no-root) no_root=1 ;;
    --check) check_only=1 ;;
    -h | --help) usage && exit 0 ;;
    *) echo "setup: unknown option \"$argument\"; scripts/setup.sh --help lists them" >&2 && exit 2 ;;
  esac
done

say() { echo "setup: $*"; }
fail() {
  echo "setup: error: $*" >&2
  exit 6
}
# logged NAME COMMAND...: keeps a command's words out of sight, in .deps/log/NAME.log.
logged() {
  local name=$1
  shift
  mkdir -p "$DEPS/log" && "$@" >"$DEPS/log/$name.log" 2>&1 </dev/null
}
last_error() {
  local log=$DEPS/log/$1.log line
  line=$(grep -iE '^(e:|error|err:|fatal)' "$log" | tail -n 1 || true)
  echo "${line:-$(tail -n 1 "$log")}" | sed -E 's/[.[:space:]]+$//'
}

# Stamps. A step is done when its stamp holds the hash of what decides its result.
stamp() {
  local scripts=$RONDO_ROOT/scripts
  case $1 in
    base) cat "$scripts/setup.sh" "$scripts"/setup/*.sh && echo "${TORCH_DIR:-}:${VIRTUAL_ENV:-}:${CONDA_PREFIX:-}" ;;
    arrow) cat "$scripts/setup/pins.sh" && echo "${ARROW_DIR:-}:$(cat "$DEPS/torch.path" 2>/dev/null)" ;;
    oracles) cat "$scripts/oracles.txt" "$scripts/setup/pins.sh" "$scripts/setup/python.sh" ;;
    cuda) cat "$scripts/setup/pins.sh" ;;
    corpus) cat "$scripts/make_corpus.sh" "$scripts/setup/pins.sh" ;;
  esac | sha256sum
}
is_done() { [[ -e $DEPS/stamps/$1 && $(<"$DEPS/stamps/$1") == "$(stamp "$1")" ]]; }
mark_done() { mkdir -p "$DEPS/stamps" && stamp "$1" >"$DEPS/stamps/$1"; }
step() {  # NAME FUNCTION
  if ((!check_only)) && is_done "$1"; then return; fi
  "$2"
  ((check_only)) || mark_done "$1"
}

base() {
  ensure_system_packages
  ensure_torch
}

# Real text to train on: LibTorch's own C++ headers.
corpus() {
  ((check_only)) && return
  say "making the default corpus out of LibTorch's headers"
  logged corpus "$RONDO_ROOT/scripts/make_corpus.sh" "$torch_dir/include" "$RONDO_ROOT/data/corpus" ||
    fail "cannot make data/corpus: $(last_error corpus). Details: $DEPS/log/corpus.log"
}
has_corpus() { is_done corpus && [[ -d $RONDO_ROOT/data/corpus ]]; }

# With root, or with a sudo that asks no password, packages are installed on the system.
find_root() {
  as_root=() may_be_root=0
  if ((no_root)); then return; fi
  if ((EUID == 0)); then
    may_be_root=1
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    may_be_root=1 as_root=(sudo -n)
  fi
}

has_torch() { [[ -e $(head -n 1 "$DEPS/torch.path" 2>/dev/null)/lib/libtorch_cpu.so ]]; }

all_done() {
  is_done base && has_torch && has_corpus && is_done arrow || return 1
  ((!want_arrow)) || return 1  # looks whether Arrow is there
  ((!want_oracles)) || is_done oracles || return 1
  ((!want_cuda)) || is_done cuda
}

problems=() pip=() torch_dir=
if ((!check_only)) && all_done; then exit 0; fi

# shellcheck source=scripts/setup/pins.sh
source "$RONDO_ROOT/scripts/setup/pins.sh"
# shellcheck source=scripts/setup/system.sh
source "$RONDO_ROOT/scripts/setup/system.sh"
# shellcheck source=scripts/setup/python.sh
source "$RONDO_ROOT/scripts/setup/python.sh"

mkdir -p "$DEPS"
find_root
torch_fits "$(torch_version_in "$(head -n 1 "$DEPS/torch.path" 2>/dev/null)")" || rm -f "$DEPS/stamps/base"
[[ -d $RONDO_ROOT/data/corpus ]] || rm -f "$DEPS/stamps/corpus"
step base base
[[ -n $torch_dir || $check_only == 1 ]] || torch_dir=$(<"$DEPS/torch.path")
if ((want_arrow)); then rm -f "$DEPS/stamps/arrow"; fi
step arrow ensure_arrow
if ((want_cuda)); then step cuda ensure_cuda; fi
if ((want_oracles)); then step oracles ensure_oracles; fi
step corpus corpus

if ((${#problems[@]})); then
  printf 'setup: missing: %s\n' "${problems[@]}" >&2
  fail "run scripts/setup.sh to bring what is missing"
fi
say "ready"
