#!/usr/bin/env bash
# run_page_test.sh BUILD PAGE: runs the blocks of a page that begin with ```sh, in order, in an empty folder.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
PATH=$1:$PATH
dir=$(mktemp -d /tmp/rondo_page.XXXXXX)
trap 'rm -rf "$dir"' EXIT

# A comparison of runs that differ ends with 1.
rondo() { command rondo "$@" || [[ $? == 1 && $1 == compare ]]; }
# shellcheck disable=SC2317  # called by the page
python3() { "$root/scripts/oracle_python.sh" "$@"; }
export -f rondo python3
export root
"$root/scripts/oracle_python.sh" -c 'import tokenizers' 2>/dev/null || { echo "skipped: no package tokenizers" && exit 77; }
[[ -d /usr/share/common-licenses ]] || { echo "skipped: no /usr/share/common-licenses" && exit 77; }

sed -n '/^```sh$/,/^```$/{/^```/!p}' "$root/$2" >"$dir/page.sh"
[[ -s $dir/page.sh ]] || { echo "no block begins with \`\`\`sh in $2" && exit 1; }
mkdir "$dir/empty" && cd "$dir/empty" || exit 1
bash -euo pipefail -x "$dir/page.sh" </dev/null
