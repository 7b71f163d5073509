#!/usr/bin/env bash
# scripts/kubernetes_job.yaml: two launchers with the words and variables of its pods train as one job.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$1
# shellcheck source=tests/scripts/check.sh
source "$root/tests/scripts/check.sh"
job=$root/scripts/kubernetes_job.yaml

dir=$(mktemp -d /tmp/rondo_kubernetes.XXXXXX)
trap 'rm -rf "$dir"' EXIT
explain() { cat "$dir"/pod_*.log; }
seq 4000 | sed 's/$/ is a number of my own text./' >"$dir/text.txt"

# The words of the container, with a model, data and ranks that fit here.
mapfile -t words < <(sed -n '/^          args:/,/^          env:/s/^            - //p' "$job" |
  sed "s|llama3_8b|llama3_debug|; s|/work/outputs|$dir/run|; s|/work/tokens|$dir/text.txt|; s|=auto|=1|")
value_of() { sed -n "/name: $1\$/{n;s/^ *value: *//;s/\"//g;p}" "$job"; }
port=$((20000 + RANDOM % 10000))
check "the job names its nodes, and pod 0 of its service as their meeting point" \
  [ "$(value_of PET_NNODES) $(value_of PET_MASTER_ADDR) $(value_of PET_MASTER_PORT)" = "2 rondo-0.rondo 29500" ]
pod() {  # INDEX
  PET_NNODES=$(value_of PET_NNODES) PET_NODE_RANK=$1 PET_MASTER_ADDR=127.0.0.1 PET_MASTER_PORT=$port RONDO_RDZV_SECRET=secret \
    timeout 120 "$build/rondo" "${words[@]}" --training.steps=1 --training.seq_len=32 --validation.enable=false >"$dir/pod_$1.log" 2>&1
}
cd "$dir" || exit 1  # where no configs/ is
pod 1 &
other=$!
check "pod 0 ends well" pod 0
check "pod 1 ends well" wait $other
check "its ranks are one job" grep -q 'layout: 2 ranks' pod_0.log
check "its last step is saved" test -e run/checkpoint/step-1/COMMITTED
if python3 -c 'import yaml' 2>/dev/null; then
  check "the file is YAML, a Service and a Job" python3 -c 'import sys, yaml
sys.exit([part["kind"] for part in yaml.safe_load_all(open(sys.argv[1]))] != ["Service", "Job"])' "$job"
fi

check_summary
