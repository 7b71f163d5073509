#!/usr/bin/env bash
# tests/scripts/run_train_test.sh BUILD_DIR: run_train.sh, called from another folder, reads and writes paths of that folder.
# Set-up and build are left out: they have tests of their own.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(realpath "$1")
# shellcheck source=tests/scripts/check.sh
source "$root/tests/scripts/check.sh"

dir=$(mktemp -d /tmp/rondo_run_train.XXXXXX)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir"/project/{scripts,build,configs,data/mine} "$dir"/user/{data/mine,more}
cp "$root/run_train.sh" "$dir/project/"
cp "$root/scripts/env.sh" "$dir/project/scripts/"
cp "$root/configs/llama3_debug.toml" "$dir/project/configs/"
ln -s "$build" "$dir/project/build/cpu"
for script in setup build; do
  printf '#!/bin/sh\n' >"$dir/project/scripts/$script.sh"
  chmod +x "$dir/project/scripts/$script.sh"
done
echo "text of the project" >"$dir/project/data/mine/a.txt"
for file in data/mine/a.txt data/mine/b.txt more/c.txt held_out.txt; do
  seq -s " " 300 >"$dir/user/$file"
done
printf '[training]\nsteps = 1\nseq_len = 32\nlocal_batch_size = 1\n[model]\nn_layers = 1\n' >"$dir/user/small.toml"

export RONDO_PRESET=cpu NGPU=1 OMP_NUM_THREADS=1
train() { (cd "$dir/user" && "$dir/project/run_train.sh" small.toml "$@") >"$dir/log" 2>&1; }
refused() { ! train "$@"; }
said() { grep -q -- "$1" "$dir/log"; }
explain() { tail -n 5 "$dir/log"; }

check "a list of paths in a flag, and a folder to write" train --training.dataset_path=data/mine,more --job.dump_folder=lists --validation.enable=false
check "holds the files of this folder" said "data: 3 documents"
check "and the run is here" test -e "$dir/user/lists/exit.json"
check "a path as a word of its own" train --training.dataset-path more --job.dump_folder words --validation.enable=false
check "is of this folder" said "data: 1 documents\? "
check "a named data set" train --training.dataset=own --training.datasets='["own=data/mine"]' --validation.dataset_path=held_out.txt
check "is of this folder, too" said "data: 2 documents"
check "and without a flag the run is in ./outputs of it" test -e "$dir/user/outputs/exit.json"
check "an absent path is an error" refused --training.dataset_path=absent --job.dump_folder=absent
check "of this folder" said "absent"
check_summary
