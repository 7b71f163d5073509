# shellcheck shell=bash
# Sourced by the tests with a real Slurm: starts one of two nodes on this machine under $dir, and stops it at the end.
# Ends the test as skipped (77), with the reason, where Slurm does not start. REQUIRES: $root, the project.
: "${root:?}"
# shellcheck source=tests/scripts/check.sh
source "$root/tests/scripts/check.sh"
PATH=$PATH:/usr/sbin:/sbin

for command in munged slurmctld slurmd sbatch; do
  if ! command -v "$command" >/dev/null; then
    echo "SKIPPED: no $command on this machine; apt-get install slurm-wlm munge brings Slurm"
    exit 77
  fi
done

dir=$(mktemp -d /tmp/rondo_slurm.XXXXXX)
clean_up() { :; }  # of the test
finish() {
  "$root/scripts/slurm_test_cluster.sh" stop "$dir/cluster"
  clean_up
  rm -rf "$dir"
}
trap finish EXIT
if ! "$root/scripts/slurm_test_cluster.sh" start "$dir/cluster"; then
  echo "SKIPPED: Slurm is installed but does not start here"
  exit 77
fi
export SLURM_CONF=$dir/cluster/slurm.conf
# Not root's limits: the tests may run inside somebody's job.
unset "${!SLURM_JOB@}" 2>/dev/null || true
