#!/usr/bin/env bash
# generate_parity.sh BUILD_DIR: see generate_parity.py. Exit 77 without the packages to compare with.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$root/scripts/oracle_python.sh" -c "import safetensors, transformers" || {
  echo "skipped: no transformers to compare with; run scripts/setup.sh --oracles"
  exit 77
}
"$root/scripts/oracle_python.sh" "$root/tests/run/generate_parity.py" "$1/rondo" "$scratch"
