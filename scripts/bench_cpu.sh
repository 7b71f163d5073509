#!/usr/bin/env bash
# Compares the training step of configs/llama3_debug.toml with the same step in PyTorch of the same wheel, eager and
# compiled, and with the step's matrix products alone, on this machine's CPU; then one short row, one long row of packed
# documents, and the step of configs/deepseek_v3_debug.toml with that of transformers. Contestants take turns in every
# round; medians, minima and ratios of the rounds go to docs/results/cpu_debug_DATE.md, every number behind them to
# build/bench/. Takes about 45 minutes on two cores.
#
# --only NAME...  some of the workloads debug, small, packed and deepseek (benchmarks/bench_cpu.py)
# --precisions fp32 bf16   or one of them: PyTorch's bf16 takes minutes a turn on a CPU without AVX-512
# --no-compile             without torch.compile
# --output FILE            the page to write
# ROUNDS    turns of every contestant (9)
# STEPS     measured steps in a turn (10); a few more are run before them
# STARTS    measured process starts of every contestant (3); 0: none
# THREADS   of every contestant (2)
# IDLE_WAIT_S  how long to wait before a turn for other processes to fall silent (60)
# RONDO     the program to measure (this project's, built first)
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$RONDO_ROOT"

scripts/setup.sh --oracles
[[ -n ${RONDO:-} ]] || scripts/build.sh cpu rondo rondo-worker
exec python3 benchmarks/bench_cpu.py --rondo "${RONDO:-build/cpu/rondo}" --rounds "${ROUNDS:-9}" --steps "${STEPS:-10}" \
  --starts "${STARTS:-3}" --threads "${THREADS:-2}" --idle-wait-s "${IDLE_WAIT_S:-60}" "$@"
