# shellcheck shell=bash
# Sourced by the scripts that build: where the project is, and the tools that set-up unpacked beside it.
RONDO_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ -d $RONDO_ROOT/.deps/bin ]] && PATH=$RONDO_ROOT/.deps/bin:$PATH
export RONDO_ROOT PATH
