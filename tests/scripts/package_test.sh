#!/usr/bin/env bash
# scripts/package.sh: the archive runs in a root folder that has glibc, /dev and /proc, and nothing else.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$1
# shellcheck source=tests/scripts/check.sh
source "$root/tests/scripts/check.sh"

dir=$(mktemp -d /tmp/rondo_package.XXXXXX)
trap 'rm -rf "$dir"' EXIT
explain() { printf 'exit %s\n%s\n' "$code" "$output"; }
runs() {  # COMMAND...: sets `code` and `output`
  output=$("$@" 2>&1 </dev/null)
  code=$?
  return $code
}
says() { [[ $output == *"$1"* ]]; }

# in_bare_root WORDS...: runs a program of $bare with no other file in sight. Mounts end with the namespace.
bare=$dir/bare
as_root=()
((EUID == 0)) || as_root=(--map-root-user)
in_bare_root() {
  # shellcheck disable=SC2016  # the inner shell expands them
  unshare "${as_root[@]}" --mount -- bash -c 'mount --rbind /dev "$0/dev" && mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"' \
    "$bare" "$@"
}
mkdir -p "$bare"/{dev,proc,tmp,lib64,lib/x86_64-linux-gnu}
for library in libc.so.6 libm.so.6 libdl.so.2 librt.so.1 libpthread.so.0 libutil.so.1; do
  cp -L "/lib/x86_64-linux-gnu/$library" "$bare/lib/x86_64-linux-gnu/"
done
cp -L /lib64/ld-linux-x86-64.so.2 "$bare/lib64/"
if ! runs unshare "${as_root[@]}" --mount -- bash -c "mount --rbind /proc $bare/proc && exec chroot $bare /none"; then
  # 127: chroot worked, and /none is not there
  ((code == 127)) || { echo "skipped: no bare root on this machine: $output" && exit 77; }
fi

check "a preset is packed" runs "$root/scripts/package.sh" "$(basename "$build")" "$dir/package"
packed=$output
echo "$packed"
check "each packed library has its licence" [ "$packed" = "${packed/No licence/}" ]
check "the archive has its checksum" runs bash -c "cd '$dir/package' && sha256sum --check --quiet ./*.sha256"
mkdir "$bare/moved" && tar -C "$bare/moved" --strip-components=1 -xzf "$dir"/package/rondo-*.tar.gz
tree=$bare/moved
check "only libraries of the closure are packed, and never the driver's" \
  [ -z "$(find "$tree/lib" -name 'libtorch_python*' -o -name 'libcuda.so*' -o -name 'libc.so*')" ]
check "no program or library names a folder of the machine that built it" \
  [ -z "$(readelf -d "$tree"/bin/* "$tree"/lib/*.so* | sed -nE 's/.*(RPATH|RUNPATH).*\[(.*)\]/\2/p' | tr : '\n' | grep -v '^\$ORIGIN')" ]

seq 20000 | sed 's/$/ is a number of my own text./' >"$bare/tmp/text.txt"
printf 'PAR1 no table PAR1' >"$bare/tmp/broken.parquet"
rondo=/moved/bin/rondo
check "rondo --version" runs in_bare_root $rondo --version
check "doctor finds the worker" runs in_bare_root $rondo doctor
check "doctor sends no one to set-up" [ "$output" = "${output/setup.sh/}" ]
check "text becomes tokens" runs in_bare_root $rondo data tokenize --tokenizer bytes --input /tmp/text.txt --output /tmp/text.tokens
check "two ranks train two steps on them with a shipped config" runs in_bare_root $rondo launch --nproc-per-node 2 -- train \
  configs/llama3_debug.toml --training.steps=2 --training.seq_len=64 --training.dataset_path=/tmp/text.tokens --validation.enable=false \
  --job.dump_folder=/tmp/run
check "the run is done" says "done after step 2 of 2"
if compgen -G "$tree/lib/libarrow.so*" >/dev/null; then
  runs in_bare_root $rondo data inspect /tmp/broken.parquet
  check "Arrow is loaded" [ "$output" = "${output/cannot load Arrow/}" ]
fi
check "a report is written" runs in_bare_root $rondo report --text /tmp/run
check "a missing config is named" eval '! runs in_bare_root $rondo train configs/none.toml && says "configs/none.toml"'
# shellcheck disable=SC2016  # the inner shell expands it
check "bash completes with the file of the archive" runs bash -c 'source "$0" && COMP_WORDS=(rondo doc) COMP_CWORD=1 &&
  _rondo && [[ ${COMPREPLY[*]} == doctor ]]' "$tree/share/bash-completion/completions/rondo"
check "the manual page is there" grep -q '^.TH RONDO 1' "$tree/share/man/man1/rondo.1"

check_summary
