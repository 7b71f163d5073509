#!/usr/bin/env bash
# Each preset of configs/ for large models names the cluster that it is made for, "made for N DEVICE", and a plan says that it fits.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$1
# shellcheck source=tests/scripts/check.sh
source "$root/tests/scripts/check.sh"
cd "$root" || exit 1

explain() { printf '%s\n' "$output"; }
plan_fits() {  # PRESET WORLD DEVICE
  output=$("$build/rondo" plan "$1" --world "$2" --device "${3,,}" --search-plans 0 2>&1) && [[ $output == *" usable: fits"* ]]
}
for preset in configs/*.toml; do
  [[ $preset != *_debug* ]] || continue
  output=$(sed -n '1,3s/^# //p' "$preset" | tr '\n' ' ')
  if [[ $output =~ made\ for\ ([0-9]+)\ ([A-Z][A-Z0-9]+) ]]; then
    check "$preset fits ${BASH_REMATCH[1]} ${BASH_REMATCH[2]}" plan_fits "$preset" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
  else
    check "$preset names its cluster" false
  fi
done

check_summary
