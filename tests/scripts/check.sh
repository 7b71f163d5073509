# shellcheck shell=bash
# Sourced by the tests that are shell scripts: facts are checked one by one, and all of them before the test ends.

failures=0

# check FACT COMMAND...: FACT holds when COMMAND succeeds. `explain`, if the test defines it, shows why one does not.
check() {
  local fact=$1
  shift
  if "$@"; then
    echo "ok: $fact"
  else
    echo "FAILED: $fact"
    failures=$((failures + 1))
    if declare -F explain >/dev/null; then explain; fi
  fi
}

check_summary() {
  echo "$failures checks failed"
  ((failures == 0))
}
