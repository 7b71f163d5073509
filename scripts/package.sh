#!/usr/bin/env bash
# scripts/package.sh [--cuda-libraries] [PRESET [FOLDER]]: packs a built preset (cpu) into FOLDER (build/package).
#
#   rondo-VERSION-PRESET-x86_64.tar.gz    programs, their libraries, configs, docs, completion, manual page, licences
#   rondo-VERSION-PRESET-x86_64.tar.gz.sha256
#
# The archive runs from any folder of a machine with glibc, of the version that is printed or later: docs/containers.md.
#   --cuda-libraries  also the CUDA libraries (2.7 GiB), which a machine or an image may have already; never the driver's
#
# Exit codes: 0 done, 2 usage, 6 the preset is not built, or a library is missing.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$RONDO_ROOT"

fail() {  # CODE WORDS...
  echo "package: error: ${*:2}" >&2
  exit "$1"
}

cuda_libraries=OFF words=()
for word in "$@"; do
  case $word in
    --cuda-libraries) cuda_libraries=ON ;;
    -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" && exit 0 ;;
    -*) fail 2 "unknown option \"$word\"; scripts/package.sh --help lists them" ;;
    *) words+=("$word") ;;
  esac
done
((${#words[@]} <= 2)) || fail 2 "at most PRESET and FOLDER; scripts/package.sh --help explains them"
preset=${words[0]:-cpu} folder=${words[1]:-build/package} build=build/${words[0]:-cpu}
for program in rondo rondo-worker; do
  [[ -x $build/$program ]] || fail 6 "$build/$program is missing; build it with: scripts/build.sh $preset rondo rondo-worker"
done

name=rondo-$("$build/rondo" --version | awk 'NR == 1 { print $2 }' | tr -d ,)-$preset-$(uname -m)
mkdir -p "$folder"
tree=$(mktemp -d "$folder/.tree.XXXXXX")
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"
if ! { cmake -DRONDO_INSTALL_CUDA_LIBRARIES=$cuda_libraries "$build" &&
  cmake --install "$build" --strip --prefix "$(realpath "$tree")/$name"; } >"$folder/install.log"; then
  fail 6 "cannot install $preset; the lines above and $folder/install.log say why"
fi

# The newest symbol version of glibc that a program or a library needs.
glibc=$(find "$tree" -type f \( -path '*/bin/*' -o -path '*/lib/*' \) -exec objdump -p {} + 2>/dev/null |
  grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1)
tar -C "$tree" --owner=0 --group=0 --sort=name -czf "$folder/$name.tar.gz.unfinished" "$name"
mv "$folder/$name.tar.gz.unfinished" "$folder/$name.tar.gz"
(cd "$folder" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "package: $folder/$name.tar.gz, $(du -h --apparent-size "$folder/$name.tar.gz" | cut -f 1)B;" \
  "$(du -sh --apparent-size "$tree/$name" | cut -f 1)B unpacked; it needs glibc ${glibc#GLIBC_} or later"
