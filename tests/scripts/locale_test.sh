#!/usr/bin/env bash
# tests/scripts/locale_test.sh BUILD_DIR: a German comma in numbers and the Turkish i change nothing. Locales are made
# under a temporary folder. Exit 77 (skipped) with the reason where that is not possible.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(realpath "$1")
# shellcheck source=tests/scripts/check.sh
source "$root/tests/scripts/check.sh"

dir=$(mktemp -d /tmp/rondo_locale.XXXXXX)
trap 'rm -rf "$dir"' EXIT
for locale in de_DE tr_TR; do
  if ! localedef -i $locale -f UTF-8 "$dir/$locale.UTF-8" >"$dir/localedef.log" 2>&1; then
    echo "SKIPPED: localedef cannot make $locale: $(tail -n 1 "$dir/localedef.log"); apt-get install locales brings it"
    exit 77
  fi
done
unset LC_ALL LANG LANGUAGE "${!LC_@}"
export OMP_NUM_THREADS=1

foreign() { env LOCPATH="$dir" LANG=tr_TR.UTF-8 LC_NUMERIC=de_DE.UTF-8 "$@"; }
# both NAME COMMAND...: the output in the C locale, without how long it took, is that in the foreign ones.
both() {
  local name=$1
  shift
  "$@" 2>&1 | sed '/^planned in /d' >"$dir/$name.C" && foreign "$@" 2>&1 | sed '/^planned in /d' >"$dir/$name.foreign" &&
    cmp "$dir/$name.C" "$dir/$name.foreign"
}
# train RUN STEPS [foreign]: appends to train.log.
train() {
  ${3:-env} "$build/rondo" train "$root/configs/llama3_debug.toml" --training.dataset_path="$root/data/corpus" \
    --training.seq_len=64 --training.local_batch_size=1 --model.n_layers=1 --validation.enable=false --optimizer.lr=0.0015 \
    --debug.hash_every=1 --checkpoint.enable=true --job.dump_folder="$dir/$1" --training.steps="$2" >>"$dir/train.log" 2>&1
}
explain() { tail -n 5 "$dir"/*.log "$dir"/*.C "$dir"/*.foreign; }

check "the locales are in effect" test "$(foreign printf '%.1f' 1,5)" = 1,5
check "a configuration is read and written alike" both config "$build/rondo" config resolve \
  "$root/configs/llama3_debug.toml" --optimizer.lr=0.0015
check "a plan has the same numbers" both plan "$build/rondo" plan "$root/configs/llama3_debug.toml" --world 2
check "a run ends well in the C locale" train C 2
check "and in the others" train foreign 2 foreign
check "training has the same bits" both compare "$build/rondo" compare "$dir/C" "$dir/foreign"
check "a run resumes in another locale" train C 3 foreign
check "a report is read alike" both report "$build/rondo" report --text "$dir/foreign"
check "a checkpoint is verified" both verify "$build/rondo" checkpoint verify "$dir/foreign"
check_summary
