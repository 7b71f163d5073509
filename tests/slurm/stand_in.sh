#!/usr/bin/env bash
# Stands in for `rondo` in slurm_test.sh: takes the launcher's words, says what it was told, and ends as the config's
# name asks: good (0), error (3), saved_once (75 at the first start), until_term (75 when TERM comes).
set -euo pipefail

echo "node $SLURM_NODEID start ${SLURM_RESTART_COUNT:-0}: $*"
case " $* " in
  *config_file=*until_term*)
    trap 'echo "node $SLURM_NODEID: TERM"; exit 75' TERM
    echo "node $SLURM_NODEID waits"
    # Slurm signals each process of the task, and may reach the sleep before this shell.
    for _ in {1..300}; do sleep 0.1 || true; done
    exit 1
    ;;
  *config_file=*error*) exit 3 ;;
  *config_file=*saved_once*) [[ ${SLURM_RESTART_COUNT:-0} == 0 ]] && exit 75 ;;
esac
exit 0
