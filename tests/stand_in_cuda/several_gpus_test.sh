#!/usr/bin/env bash
# The stage "several GPUs" of scripts/gpu_check.sh on the stand-in, for two ranks: its commands are right, and what ends
# in an unforeseen way would be told. BUILD is the folder of the build.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$1
# shellcheck source=tests/scripts/check.sh
source "$root/tests/scripts/check.sh"
dir=$(mktemp -d /tmp/rondo_several_gpus_test.XXXXXX)
trap 'rm -rf "$dir"' EXIT

mkdir "$dir/bin" "$dir/programs" "$dir/journals"
printf '#!/bin/sh\ncase "$*" in *memory.used*) echo 4; echo 4;; esac\n' >"$dir/bin/nvidia-smi"
preloaded=$(printf '%s:' "$build"/stand_in_cuda/*)
cat >"$dir/programs/rondo" <<EOF
#!/bin/sh
export LD_PRELOAD=$preloaded RONDO_STAND_IN=$dir/journals CUDA_VISIBLE_DEVICES=0,1
export RONDO_STAND_IN_ANSWER=counts:24:384  # rows of each expert, for exact counts
exec $build/rondo "\$@"
EOF
chmod +x "$dir/bin/nvidia-smi" "$dir/programs/rondo"

PATH=$dir/bin:$PATH RONDO_GPU_CHECK_S=560 RONDO_GPU_CHECK_STAGES=$root/tests/stand_in_cuda/several_gpus_stages.py \
  python3 -B "$root/scripts/gpu_check/run.py" "$dir/programs" "$dir/out" all >"$dir/log" 2>&1
code=$?
explain() { grep -v ': ok' "$dir/log"; }
results=$dir/out/results.jsonl
count() { grep -c "\"stage\": \"several GPUs\", .*$1" "$results"; }
check "nothing fails" test $code -eq 0
check "nothing is skipped" test "$(count '"status": "skipped"')" -eq 0
check "nine layouts have the same bits, recorded or not" test "$(count ' == .*"status": "ok"')" -eq 9
check "four ends are tried, and what is left after them" test "$(count '\(a rank is\|the launcher is\|half of\|memory of all\).*"status": "ok"')" -eq 5
check "both settings of NCCL are tried with both values" test "$(count 'NCCL_GRAPH_MIXING_SUPPORT=.*"status": "ok"')" -eq 8
check_summary
