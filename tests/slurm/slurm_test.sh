#!/usr/bin/env bash
# tests/slurm/slurm_test.sh BUILD_DIR: submits scripts/multinode_trainer.slurm to a real Slurm of two nodes on this
# machine. Exit 77 (skipped) with the reason where Slurm is not installed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(realpath "$1")
# shellcheck source=tests/slurm/cluster.sh
source "$root/tests/slurm/cluster.sh"

explain() { scontrol show job "$job" && cat "$log"; }
log_has() { grep -qsE -- "$1" "$log"; }

# submit CONFIG WORDS...: sets `job` and `log`.
submit() {
  job=$(cd "$dir/work" && sbatch --parsable --output="%j.log" --begin=now "$root/scripts/multinode_trainer.slurm" "$@")
  log=$dir/work/$job.log
}
state() { scontrol show job "$job" | sed -nE "s/.*$1=([^ ]+).*/\1/p"; }
# until_true SECONDS COMMAND...: a bound against hanging, not a measure.
until_true() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < deadline)) || return 1
    sleep 0.1
  done
}
is_state() { [[ $(state JobState) =~ ^($1)$ ]]; }
ended() { until_true 60 is_state "COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL"; }
# Slurm holds a requeued job for about two minutes. A node refuses one that comes back in the second in which it was
# stopped, so one second more is waited for.
is_requeued() { log_has "back into the queue" && is_state PENDING; }
start_again_now() { until_true 60 is_requeued && sleep 2 && scontrol update JobId="$job" StartTime=now; }

mkdir "$dir/work"
for config in error saved_once until_term good; do touch "$dir/work/$config.toml"; done
export RONDO=$root/tests/slurm/stand_in.sh

submit good.toml --training.steps=5
check "a job over two nodes completes" ended
check "and is COMPLETED" is_state COMPLETED
check "node 0 is told of both nodes" log_has "node 0 start 0: launch --nnodes 2 .*--training.steps=5"
check "node 1 is told of both nodes" log_has "node 1 start 0: launch --nnodes 2 "
check "the nodes do not meet on a loopback address" log_has "--rdzv-endpoint ([013-9]|1[013-9]|12[0-689])[0-9.]*:[0-9]+"
check "both nodes know the job by its number and start" log_has "node 1 .*--rdzv-id $job.0 "

submit error.toml
check "a failing job ends" ended
check "with the program's exit code" test "$(state ExitCode)" = 3:0

submit saved_once.toml
check "exit 75 puts the job back into the queue" start_again_now
check "the second start ends" ended
check "it is COMPLETED" is_state COMPLETED
check "the second start knows that it is one" log_has "node 1 start 1:"

submit until_term.toml
# A node that does not wait yet would die of the signal.
check "node 0 waits for a signal" until_true 60 log_has "node 0 waits"
check "node 1 waits for a signal" until_true 60 log_has "node 1 waits"
scancel --batch --signal=USR1 "$job"
check "USR1 to the job reaches node 0 as TERM" until_true 60 log_has "node 0: TERM"
check "USR1 to the job reaches node 1 as TERM" until_true 60 log_has "node 1: TERM"
check "and the job is back in the queue" until_true 60 is_requeued
scancel "$job"

export RONDO=$build/rondo NGPU=1 OMP_NUM_THREADS=1
small=(--training.dataset_path="$root/data/corpus" --training.steps=2 --training.seq_len=64 --training.local_batch_size=1)
submit "$root/configs/llama3_debug.toml" "${small[@]}" --job.dump_folder="$dir/work/launched"
check "rondo trains over two nodes" ended
check "and the job is COMPLETED" is_state COMPLETED
check "rank 0 has its lines in a log" test -s "$dir/work/outputs/slurm/$job.0/node_0/attempt_0/0/stderr.log"
check "rank 1 has a log of its own" test -e "$dir/work/outputs/slurm/$job.0/node_1/attempt_0/0/stderr.log"
# n0 and n1 are names that only this Slurm knows, so the ranks are told where to meet.
check "plain srun with one task a rank trains as well" \
  env MASTER_ADDR=127.0.0.1 timeout 60 srun --chdir="$root" --nodes=2 --ntasks-per-node=1 --kill-on-bad-exit=1 \
  "$build/rondo" train --job.config_file="$root/configs/llama3_debug.toml" "${small[@]}" \
  --job.dump_folder="$dir/work/plain"

check_summary
