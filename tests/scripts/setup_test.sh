#!/usr/bin/env bash
# scripts/setup.sh on machines that lack something: each lack is one clear message and exit 6.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=tests/scripts/check.sh
source "$root/tests/scripts/check.sh"

dir=$(mktemp -d /tmp/rondo_setup.XXXXXX)
trap 'rm -rf "$dir"' EXIT
unset TORCH_DIR ARROW_DIR VIRTUAL_ENV CONDA_PREFIX CMAKE_PREFIX_PATH PIP_FIND_LINKS
project=$dir/project
mkdir -p "$project"
cp -r "$root/scripts" "$project/"
# The corpus has its own tests.
# shellcheck disable=SC2016  # the $ is for the script that is written
printf '#!/bin/sh\nmkdir -p "$2"\n' >"$project/scripts/make_corpus.sh"

# A machine of this kind without some commands: everything in PATH but those.
path_without() {
  local folder name bin=$dir/bin
  rm -rf "$bin" && mkdir "$bin"
  for folder in /bin /usr/bin /usr/local/bin; do cp -asn "$folder/." "$bin/" 2>/dev/null; done
  for name in "$@"; do rm -f "$bin/$name"; done
  echo "$bin"
}
fake_torch() {  # FOLDER VERSION
  mkdir -p "$1/lib" "$1/include/torch/headeronly"
  touch "$1/lib/libtorch_cpu.so"
  printf '#define TORCH_VERSION \\\n  "%s"\n' "$2" >"$1/include/torch/headeronly/version.h"
}
fake_arrow() {  # FOLDER VERSION
  mkdir -p "$1/include/arrow/util"
  touch "$1/libarrow.so.2600" "$1/libparquet.so.2600"
  printf '#define ARROW_VERSION_STRING "%s"\n' "$2" >"$1/include/arrow/util/config.h"
}
# setup WORDS...: runs set-up in the copy; sets `code` and `output`.
setup() {
  output=$("$project/scripts/setup.sh" "$@" 2>&1 </dev/null)
  code=$?
}
explain() { printf 'exit %s\n%s\n' "$code" "$output"; }
fails_with() {  # CODE TEXT...
  local text
  [[ $code == "$1" ]] || return 1
  for text in "${@:2}"; do [[ $output == *"$text"* ]] || return 1; done
}
says() { [[ $code == 0 && $output == *"$1"* ]]; }
fresh() { rm -rf "$project/.deps" "$project/data"; }

setup --orcales
check "an unknown option is exit 2 and is named" fails_with 2 '"--orcales"' "--help"

without_compiler=$(path_without g++)
fresh
printf 'ID=fedora\nVERSION_ID=41\nPRETTY_NAME="Fedora Linux 41"\n' >"$dir/fedora"
PATH=$without_compiler RONDO_OS_RELEASE=$dir/fedora setup
check "an unsupported system is exit 6 and names the system, what is missing and what is supported" \
  fails_with 6 "Fedora Linux 41 is not supported" "g++" "Debian 12 and later" "Catch2 3"

printf 'ID=debian\nVERSION_ID="11"\nVERSION_CODENAME=bullseye\nPRETTY_NAME="Debian 11"\n' >"$dir/old"
PATH=$without_compiler RONDO_OS_RELEASE=$dir/old setup
check "an old Debian is exit 6" fails_with 6 "Debian 11 is not supported"

PATH=$without_compiler RONDO_OS_RELEASE=$dir/nothing setup
check "a system that does not say what it is is exit 6" fails_with 6 "no $dir/nothing"

printf 'ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\nPRETTY_NAME="Debian 12"\n' >"$dir/bookworm"
PATH=$without_compiler RONDO_OS_RELEASE=$dir/bookworm setup --no-root
check "a missing compiler without root is exit 6 with the line to type" \
  fails_with 6 "missing: g++" "apt-get install -y --no-install-recommends g++"

mkdir -p "$dir/empty_apt"
PATH=$(path_without cmake) RONDO_OS_RELEASE=$dir/bookworm PIP_INDEX_URL=http://127.0.0.1:9/simple setup --no-root
check "a missing cmake without root or network is exit 6" fails_with 6 "cannot install cmake and ninja" "PIP_INDEX_URL"

fresh
PIP_INDEX_URL=http://127.0.0.1:9/simple setup
check "no network for the wheels is exit 6 and says what would do instead" \
  fails_with 6 "cannot install LibTorch 2.11.0" "PIP_INDEX_URL" "TORCH_DIR"
check "a failed download leaves no LibTorch behind" test ! -e "$project/.deps/python"

TORCH_DIR=$dir/nowhere setup
check "a TORCH_DIR without LibTorch is exit 6" fails_with 6 "TORCH_DIR=$dir/nowhere holds no LibTorch"

fake_torch "$dir/old_torch" 2.9.1
TORCH_DIR=$dir/old_torch setup
check "a TORCH_DIR of another version is exit 6 and names both versions" fails_with 6 "LibTorch 2.9.1" "2.11.0 or 2.15.0 is needed"

fresh
PIP_INDEX_URL=http://127.0.0.1:9/simple setup --check
check "--check says what is missing, exit 6" fails_with 6 "missing: LibTorch 2.11.0"
check "--check installs nothing" test ! -e "$project/.deps/torch.path"

# Arrow is there from here on, so that nothing is downloaded.
fake_arrow "$dir/arrow/pyarrow" 26.0.1
export ARROW_DIR=$dir/arrow/pyarrow

is_taken() { says "$1" && [[ $(<"$project/.deps/torch.path") == "$1" ]]; }
fake_torch "$dir/venv/lib/python3.12/site-packages/torch" 2.11.0+cu130
VIRTUAL_ENV=$dir/venv setup
check "the LibTorch of the active venv is taken" is_taken "$dir/venv/lib/python3.12/site-packages/torch"
VIRTUAL_ENV=$dir/venv setup
check "a second run has nothing to do and says nothing" test "$code:$output" = 0:

fresh
fake_torch "$project/libtorch" 2.11.0+cpu
setup
check "an unpacked LibTorch beside the scripts is taken" is_taken "$project/libtorch"

fresh
fake_torch "$dir/newer" 2.15.0+cu132
TORCH_DIR=$dir/newer setup
check "a LibTorch 2.15.0 is taken for CPUs" is_taken "$dir/newer"
TORCH_DIR=$dir/newer setup --cuda
check "it is refused for CUDA" fails_with 6 "TORCH_DIR=$dir/newer is LibTorch 2.15.0; 2.11.0 is needed"
fake_torch "$dir/named" 2.11.0
TORCH_DIR=$dir/named setup
check "TORCH_DIR comes before what else there is" is_taken "$dir/named"
rm -rf "$dir/named"
setup
check "a LibTorch that went away is noticed" is_taken "$project/libtorch"

unset ARROW_DIR
no_network=http://127.0.0.1:9/simple
PIP_INDEX_URL=$no_network setup
check "set-up goes on without Arrow, and says so" says "going on without Arrow: Parquet and Arrow IPC files will be refused"
PIP_INDEX_URL=$no_network setup
check "it does not try again by itself" test "$code:$output" = 0:
PIP_INDEX_URL=$no_network setup --arrow
check "it tries again when it is asked for Arrow, and then needs it" fails_with 6 "cannot install Arrow 26.0.1" "ARROW_DIR"
PIP_INDEX_URL=$no_network setup --arrow --check
check "--check says that Arrow is missing" fails_with 6 "missing: Arrow 26.0.1"
ARROW_DIR=$dir/nowhere setup --arrow
check "an ARROW_DIR without Arrow is exit 6" fails_with 6 "ARROW_DIR=$dir/nowhere holds no Arrow 26.0.1"
fake_arrow "$project/pyarrow" 26.0.1
setup --arrow
check "Arrow beside LibTorch is taken" says "Arrow 26.0.1: $project/pyarrow"
setup
check "and then there is nothing to do" test "$code:$output" = 0:

# Debian 12's Catch2 3 comes from backports, at the mirror that the machine uses already.
mkdir -p "$dir/etc/sources.list.d"
echo 'deb [signed-by=/k.gpg] http://mirror.test/debian bookworm main contrib' >"$dir/etc/sources.list"
printf 'Types: deb\nURIs: http://mirror.test/debian\nSuites: bookworm bookworm-updates\nComponents: main\n' \
  >"$dir/etc/sources.list.d/debian.sources"
echo 'deb http://other.test/apt stable main' >"$dir/etc/sources.list.d/other.list"
private_sources() {
  # shellcheck disable=SC2034  # read by the function that is called
  local DEPS=$dir/deps RONDO_APT_ETC=$dir/etc os_codename=bookworm as_root=()
  # shellcheck source=scripts/setup/system.sh
  source "$root/scripts/setup/system.sh" && write_private_sources
  output=$(cd "$dir/deps/apt/sources.list.d" && head -n 9 -- *) code=0
}
private_sources
check "a one-line source gets a backports line of the same mirror" \
  says "deb [signed-by=/k.gpg] http://mirror.test/debian bookworm-backports main"
check "a deb822 source gets the backports suite" says "Suites: bookworm bookworm-updates bookworm-backports"
check "sources that do not speak of the release are left out" test ! -e "$dir/deps/apt/sources.list.d/other.list"
check "the machine's own sources stay as they are" test "$(grep -c backports -r "$dir/etc" | grep -vc ':0')" = 0

# A ninja that reads the project anew, builds 20 files of 9 s each, and ends with the code of $NINJA_ENDS.
mkdir -p "$dir/fake" "$project/build/cpu"
touch "$project/build/cpu/build.ninja"
cat >"$dir/fake/ninja" <<'NINJA'
#!/bin/sh
status() { printf '%s' "$NINJA_STATUS" | sed "s/%f/$1/; s/%t/$2/; s/%e/$3/"; }
echo "$(status 0 1 0.0)Re-checking globbed directories..."
echo "$(status 1 1 0.1)Re-running CMake..."
for i in $(seq 20); do echo "$(status "$i" 20 $((9 * i)).5)Building CXX object $i.o"; done
echo "a.cpp:1: warning: unused"
exit "${NINJA_ENDS:-0}"
NINJA
chmod +x "$dir/fake/ninja"
output=$(PATH=$dir/fake:$PATH "$project/scripts/build.sh" cpu 2>&1) code=$?
check "a build says how far it is and how long it will take" \
  says $'built 2 of 20 steps in 18 s, about 3 min left\nbuilt 4 of 20 steps in 36 s, about 2 min left\n'
check "and ends with the whole" says $'built 20 of 20 steps in 3 min\na.cpp:1: warning: unused'
output=$(NINJA_ENDS=1 PATH=$dir/fake:$PATH "$project/scripts/build.sh" cpu 2>&1) code=$?
check "a failed build fails" fails_with 1 "warning: unused"

check_summary
