#!/usr/bin/env bash
# tests/slurm/network_test.sh BUILD_DIR: tasks of a real Slurm find each other where each node has a network and an
# address of its own, as on real machines. Exit 77 (skipped) with the reason where that cannot be set up.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(realpath "$1")
if ! unshare --net --mount true 2>/dev/null; then
  echo "SKIPPED: network and mount namespaces need root"
  exit 77
fi
# shellcheck source=tests/slurm/cluster.sh
source "$root/tests/slurm/cluster.sh"

spaces=rondo_$$
clean_up() { for node in n0 n1; do ip netns delete "${spaces}_$node" 2>/dev/null || true; done; }
for node in n0 n1; do ip netns add "${spaces}_$node"; done
ip -n "${spaces}_n0" link add between type veth peer name between netns "${spaces}_n1"
for node in n0 n1; do
  ip -n "${spaces}_$node" address add "10.77.0.$((${node#n} + 1))/24" dev between
  ip -n "${spaces}_$node" link set between up
  ip -n "${spaces}_$node" link set lo up
done
printf '127.0.0.1 localhost\n10.77.0.1 n0\n10.77.0.2 n1\n' >"$dir/hosts"
# Runs a command in the network of the task's node.
cat >"$dir/on_node" <<ON_NODE
#!/bin/sh
exec nsenter --net=/run/netns/${spaces}_\$SLURMD_NODENAME unshare --mount --propagation private \
  sh -c 'mount --bind $dir/hosts /etc/hosts && exec "\$@"' sh "\$@"
ON_NODE
chmod +x "$dir/on_node"

export OMP_NUM_THREADS=1
# train NAME SRUN_WORDS...: a run of two tasks with output in NAME.log; its exit code.
train() {
  local name=$1
  shift
  timeout 120 srun --chdir="$dir" --ntasks=2 --kill-on-bad-exit=1 "$@" "$dir/on_node" "$build/rondo" train \
    "$root/configs/llama3_debug.toml" --training.dataset_path="$root/data/corpus" --training.steps=2 --training.seq_len=64 \
    --training.local_batch_size=1 --validation.enable=false --comm.init_timeout_seconds=30 --model.n_layers=1 \
    --debug.seed="${seed:-1}" --job.dump_folder="$dir/$name" >"$dir/$name.log" 2>&1
}
explain() { tail -n 20 "$dir"/*.log; }
has_steps() { [[ $(wc -l <"$dir/$1/metrics.jsonl") == 2 ]] && grep -q '"world_size": 2' "$dir/$1/env.json"; }

check "two nodes with addresses of their own train together" train block --nodes=2
check "and take their steps as two ranks" has_steps block

printf 'n1\nn0\n' >"$dir/hostfile"
SLURM_HOSTFILE=$dir/hostfile check "rank 0 that is not on the first host is found by the others" \
  train arbitrary --distribution=arbitrary
check "and it trains with them" has_steps arbitrary

# Both steps are on one node, so their ports must differ.
cat >"$dir/two_steps.sbatch" <<BATCH
#!/bin/bash
$(declare -f train)
dir=$dir root=$root build=$build
seed=1 train one --overlap --nodes=1 --nodelist=n0 & one=\$!
seed=2 train other --overlap --nodes=1 --nodelist=n0 & other=\$!
wait \$one && wait \$other
BATCH
check "two steps of one job that run at the same time both end well" \
  timeout 180 sbatch --wait --nodes=2 --output="$dir/two_steps.log" "$dir/two_steps.sbatch"
check "the first is a run of its own" has_steps one
check "and the second, too" has_steps other

check_summary
