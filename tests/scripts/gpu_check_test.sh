#!/usr/bin/env bash
# scripts/gpu_check.sh without a GPU: what it packs and refuses, how it ends here, its time, and what is left when it is
# cut short. Programs and stages are stand-ins.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=tests/scripts/check.sh
source "$root/tests/scripts/check.sh"

dir=$(mktemp -d /tmp/rondo_gpu_check_test.XXXXXX)
trap 'rm -rf "$dir"' EXIT
unset RONDO_CUDA_BUILD RONDO_GPU_CHECK_S RONDO_GPU_CHECK_STAGES OUT
export TMPDIR=$dir

gpu_check() {  # WORDS...: sets `code` and `output`
  output=$("$root/scripts/gpu_check.sh" "$@" 2>&1 </dev/null)
  code=$?
}
explain() { printf 'exit %s\n%s\n' "$code" "$output"; }
ends_with() {  # CODE TEXT...
  local text
  [[ $code == "$1" ]] || return 1
  for text in "${@:2}"; do [[ $output == *"$text"* ]] || return 1; done
}
holds() { grep -qF -- "$2" "$1"; }
programs="rondo rondo-worker tests/kernel_check tests/graph_device_check tests/refusal_check"
fake_build() {  # FOLDER
  mkdir -p "$1/tests"
  for program in $programs; do cp /bin/true "$1/$program"; done
}
fake_torch() {  # VERSION: a torch that python3 finds
  mkdir -p "$dir/python/torch/lib"
  touch "$dir/python/torch/__init__.py"
  echo "__version__ = '$1'" >"$dir/python/torch/version.py"
}

gpu_check pakc
check "an unknown command is exit 2 and shows the usage" ends_with 2 "scripts/gpu_check.sh pack [FOLDER]"

fake_build "$dir/build"
export RONDO_CUDA_BUILD=$dir/build
rm "$dir/build/tests/kernel_check"
gpu_check pack "$dir/pack"
check "a program that is not built is exit 6 with the line to type" \
  ends_with 6 "lacks kernel_check" "scripts/build.sh cuda rondo rondo-worker kernel_check graph_device_check refusal_check"

fake_build "$dir/build"
gpu_check pack "$dir/pack"
check "what a check needs is packed" ends_with 0 "packed" "scripts/gpu_check.sh run $dir/pack"
check "the pack names the commit and has the sums of its programs" holds "$dir/pack/packed.txt" " rondo-worker"
check "it has the programs in one archive" test "$(ls "$dir/pack")" = $'packed.txt\nprograms.tar.gz'

mkdir "$dir/notes"
gpu_check pack "$dir/notes"
check "a folder that is no pack is not overwritten" ends_with 2 "name another"

# A library of this machine that others may lack.
echo 'int rondo_odd(void) { return 0; }' >"$dir/odd.c"
if cc -shared -o "$dir/libodd.so" -Wl,-soname,libodd.so.3 "$dir/odd.c" 2>/dev/null &&
  echo 'int rondo_odd(void); int main(void) { return rondo_odd(); }' | cc -x c - -x none -o "$dir/build/rondo" "$dir/libodd.so" 2>/dev/null; then
  gpu_check pack "$dir/pack"
  check "a library that another machine may lack is exit 6 and is named" ends_with 6 "rondo needs libodd.so.3"
  fake_build "$dir/build"
fi

cp /bin/true "$dir/build/rondo-worker"
# Sections survive stripping.
head -c 70000000 /dev/urandom >"$dir/padding"  # does not compress
objcopy --add-section .padding="$dir/padding" --set-section-flags .padding=alloc,readonly "$dir/build/rondo-worker" 2>/dev/null
gpu_check pack "$dir/large"
check "more than 56 MiB is exit 9 and says what is large" ends_with 9 "at most 56 can be carried" "rondo-worker 6"

gpu_check run "$dir/nowhere" "$dir/out"
check "a folder without the programs is exit 6 and says how to make one" ends_with 6 "$dir/nowhere has no rondo" "pack"

export PYTHONPATH=$dir/python
mkdir -p "$dir/python"
fake_torch 2.9.1+cu126
gpu_check run "$dir/pack" "$dir/out"
check "another torch is exit 6 and names both versions" ends_with 6 "torch 2.9.1+cu126" "2.11.0+cu130"

fake_torch 2.11.0+cu130
if ! nvidia-smi >/dev/null 2>&1; then
  gpu_check run "$dir/pack" "$dir/out"
  check "without a GPU a run ends in its first stage with exit 6 and one clear line" \
    ends_with 6 "gpu_check: error: no NVIDIA GPU is here"
  check "and that is what its results say" holds "$dir/out/results.md" "no NVIDIA GPU is here"
fi

export RONDO_GPU_CHECK_STAGES=$root/tests/scripts/gpu_check_stages.py
began=$SECONDS
RONDO_GPU_CHECK_S=4 gpu_check run "$dir/pack" "$dir/out"
md=$dir/out/results.md
check "a run with a failure ends with 1, soon after its time" ends_with 1 "3 failed"
check "it took no longer" test $((SECONDS - began)) -lt 30
check "figures are columns" holds "$md" "| passes | ok | 42 | 0.5 |"
check "what failed says why" holds "$md" "- begin, fails: it was told to"
check "what was skipped says why" holds "$md" "nothing to try"
check "a mistake of the check itself is told apart" holds "$md" "the check itself failed: ZeroDivisionError"
check "a command that takes too long is ended" holds "$md" "did not end within"
check "unless the time of its stage was up" holds "$md" "the stage's time was up after"
check "a case for which no time is left is skipped" holds "$md" "s are left of the stage's time"
check "so is a stage" holds "$md" "the stage needs 30"
check "results are JSON, too" python3 -c 'import json, sys; assert len(json.load(open(sys.argv[1]))) == 12' \
  "$dir/out/results.json"
check "nothing that was started is left" test -z "$(pgrep -f 'sleep 6[01]\.5')"
check "what is brought home is at most 8 files and no folder" test "$(find "$dir/out" -mindepth 1 -type f | wc -l)" -le 8 -a \
  -z "$(find "$dir/out" -mindepth 1 -type d)"
tar -xzOf "$dir/out/logs.tar.gz" logs/begin_slow.txt >"$dir/log" 2>&1
check "what commands said is in the archive" holds "$dir/log" "$ sleep 60"

gpu_check run --stages never,begin "$dir/pack" "$dir/out"
check "an unknown stage is exit 2 and those that there are are named" ends_with 2 'no stage "never"' "begin, long, never begun, first"
RONDO_GPU_CHECK_S=4 gpu_check run --stages=second "$dir/pack" "$dir/half"
check "a half has its own stages and the first one" holds "$dir/half/results.md" "never begun"
check "and no other" test -z "$(grep '## long' "$dir/half/results.md")"
OUT=$dir/returned RONDO_GPU_CHECK_S=4 gpu_check run --stages=second "$dir/pack"
check "results go to the folder that the variable OUT names" holds "$dir/returned/results.md" "never begun"

# A run that is in its stage "long", by its process id.
begin_run() {  # OUT: sets `pid`
  RONDO_GPU_CHECK_S=60 "$root/scripts/gpu_check.sh" run "$dir/pack" "$1" >"$dir/log" 2>&1 </dev/null &
  pid=$!
  for _ in $(seq 100); do
    pgrep -f 'sleep 61\.5' >/dev/null && break
    sleep 0.1
  done
}

# Cut short.
begin_run "$dir/cut"
kill -TERM $pid
wait $pid
code=$? output=$(<"$dir/log")
check "a run that is ended by a signal says so with its exit code" ends_with 143
check "it has what it found until then" holds "$dir/cut/results.md" "| passes | ok | 42 | 0.5 |"
check "and says that it is not whole" holds "$dir/cut/results.md" "interrupted by SIGTERM"
check "and leaves nothing running" test -z "$(pgrep -f 'sleep 61\.5')"

# Killed: nobody can write a summary any more.
begin_run "$dir/killed"
kill -KILL $pid && wait $pid 2>/dev/null
pkill -KILL -f 'sleep 61\.5'
check "a run that is killed leaves what it found" holds "$dir/killed/results.jsonl" '"case": "passes", "status": "ok"'
tar -xzOf "$dir/killed/logs.tar.gz" logs/begin_slow.txt >"$dir/log" 2>&1
check "and what the commands of the stages before said" holds "$dir/log" "$ sleep 60"

# A machine that goes away leaves lines alone, the last one cut.
mkdir -p "$dir/lost"
head -n 3 "$dir/cut/results.jsonl" >"$dir/lost/results.jsonl"
printf '{"stage": "long", "ca' >>"$dir/lost/results.jsonl"
gpu_check report "$dir/lost"
check "a report is made of the lines that are whole" ends_with 0 "$dir/lost/results.md"
check "and says that the run was cut short" holds "$dir/lost/results.md" "cut short"
gpu_check report "$dir/pack"
check "a folder without results is exit 6" ends_with 6 "has no results.jsonl"

check_summary
