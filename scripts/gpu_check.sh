#!/usr/bin/env bash
# Shows on one NVIDIA GPU what a machine without one cannot show, in two commands of at most 9 minutes: docs/cuda.md.
#
#   scripts/gpu_check.sh pack [FOLDER]                          where the preset cuda was built: what a check needs
#   scripts/gpu_check.sh run [--stages LIST] [FOLDER] [OUT]     on the machine with the GPU; results into OUT as they come
#   scripts/gpu_check.sh report OUT                             makes OUT/results.md and OUT/results.json again
#
# LIST names stages between commas; "first" (what matters most) and "second" (the rest) are one command's worth each, and
# "all" is both. "several" is for a machine with several GPUs. FOLDER is build/gpu_check. OUT is the folder that the variable OUT names, for machines that return only
# that folder, else build/gpu_check_results; it gets at most 8 files and no folder. LibTorch is not carried: `run` takes
# the torch of `python3`.
# RONDO_CUDA_BUILD (build/cuda): the build to pack. RONDO_GPU_CHECK_S (540): seconds that the stages may take.
# RONDO_GPU_CHECK_STAGES: a Python file with other stages.
#
# Exit codes: 0 nothing failed, 1 something did, 2 usage, 6 a part or the GPU is missing, 9 too large to carry,
# 128 + N ended by signal N.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$RONDO_ROOT"

readonly TORCH_WANTED=2.11.0+cu130
readonly LARGEST_MIB=56
readonly ARCHIVE=programs.tar.gz
readonly PROGRAMS=(rondo rondo-worker tests/kernel_check tests/graph_device_check tests/refusal_check)
# What a torch of the wanted version, a C++ runtime and the driver bring. Anything else would have to be carried.
readonly LIBRARIES_THERE='^(libtorch.*|libc10.*|libcublasLt|libcudart|libnccl|libgomp|libstdc\+\+|libm|libgcc_s|libc|libpthread|libdl|librt|ld-linux-x86-64)\.so(\.|$)'

usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; }
fail() {  # CODE WORDS...
  echo "gpu_check: error: ${*:2}" >&2
  exit "$1"
}

pack() {  # FOLDER
  local folder=$1 build=${RONDO_CUDA_BUILD:-build/cuda} program missing=()
  for program in "${PROGRAMS[@]}"; do
    [[ -x $build/$program ]] || missing+=("${program##*/}")
  done
  if ((${#missing[@]})); then
    fail 6 "$build lacks ${missing[*]}; build them with: scripts/build.sh cuda ${PROGRAMS[*]##*/}"
  fi
  [[ ! -e $folder || -e $folder/packed.txt ]] || fail 2 "$folder is there already, and no pack of an earlier time; name another"
  unfinished=$folder.unfinished
  trap 'rm -rf "$unfinished"' EXIT
  rm -rf "$unfinished" && mkdir -p "$unfinished"
  for program in "${PROGRAMS[@]}"; do
    strip -o "$unfinished/${program##*/}" "$build/$program"
    cmake -DPROGRAM="$(realpath "$unfinished/${program##*/}")" -P cmake/remove_run_path.cmake
    refuse_missing_libraries "$unfinished/${program##*/}"
  done
  {
    echo "commit $(git rev-parse HEAD 2>/dev/null || echo unknown)$([[ -z $(git status --porcelain 2>/dev/null) ]] || echo ' and changes')"
    (cd "$unfinished" && sha256sum -- "${PROGRAMS[@]##*/}")
  } >"$unfinished/packed.txt"
  tar -C "$unfinished" -czf "$unfinished/$ARCHIVE" -- "${PROGRAMS[@]##*/}"
  refuse_large "$unfinished"
  (cd "$unfinished" && rm -- "${PROGRAMS[@]##*/}")
  rm -rf "$folder" && mv "$unfinished" "$folder"
  echo "gpu_check: packed $(du -h --apparent-size -s "$folder" | cut -f 1)B into $folder"
  echo "gpu_check: carry it with the source tree to the machine with the GPU; there: scripts/gpu_check.sh run $folder"
}
refuse_missing_libraries() {  # PROGRAM
  local others
  others=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE "$LIBRARIES_THERE" | tr '\n' ' ' || true)
  [[ -z $others ]] || fail 6 "${1##*/} needs ${others% }, which another machine may lack; link it statically"
}
refuse_large() {  # FOLDER
  local bytes
  bytes=$(du -b "$1/$ARCHIVE" | cut -f 1)
  if ((bytes <= LARGEST_MIB << 20)); then return; fi
  local largest
  largest=$(cd "$1" && du -h --apparent-size -- "${PROGRAMS[@]##*/}" | sort -rh | awk '{ printf "%s%s %s", sep, $2, $1; sep = ", " }')
  fail 9 "a pack would have $((bytes >> 20)) MiB, and at most $LARGEST_MIB can be carried; before compression: $largest"
}

# The torch that python3 imports; sets torch_dir. Reads files only: importing takes seconds.
find_torch() {
  command -v python3 >/dev/null || fail 6 "no python3; the check takes LibTorch from the torch of python3"
  local version
  torch_dir=$(python3 -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")')
  [[ -n $torch_dir ]] || fail 6 "the python3 in PATH has no torch; activate an environment with torch $TORCH_WANTED"
  version=$(sed -n "s/^__version__ = ['\"]\(.*\)['\"]/\1/p" "$torch_dir/version.py" 2>/dev/null || true)
  [[ $version == "$TORCH_WANTED" ]] ||
    fail 6 "python3 has torch ${version:-of an unknown version} in $torch_dir; the programs were built against $TORCH_WANTED. Activate an environment with that one"
}

run() {  # STAGES FOLDER OUT
  local stages=$1 folder=$2 out=$3 program libraries
  if [[ -e $folder/$ARCHIVE ]]; then tar -C "$folder" -xzf "$folder/$ARCHIVE"; fi
  for program in "${PROGRAMS[@]##*/}"; do
    [[ -x $folder/$program ]] || fail 6 "$folder has no $program; make it with scripts/gpu_check.sh pack, and carry it here"
  done
  find_torch
  libraries=$torch_dir/lib
  for folder_of_wheel in "$torch_dir"/../nvidia/*/lib; do
    [[ -d $folder_of_wheel ]] && libraries+=:$(realpath "$folder_of_wheel")
  done
  mkdir -p "$out"
  LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} RONDO_GPU_CHECK_TORCH=$torch_dir \
    exec python3 -B scripts/gpu_check/run.py "$folder" "$out" "$stages"
}

command=${1:-}
shift || true
stages=all
if [[ $command == run && ${1:-} == --stages* ]]; then
  if [[ $1 == --stages=* ]]; then stages=${1#*=}; else stages=${2:-} && shift; fi
  shift || true
fi
case $command:$# in
  pack:[01]) pack "${1:-build/gpu_check}" ;;
  run:[012]) run "$stages" "${1:-build/gpu_check}" "${2:-${OUT:-build/gpu_check_results}}" ;;
  report:1) exec python3 -B scripts/gpu_check/report.py "$1" ;;
  help:* | -h:* | --help:*) usage ;;
  *) usage >&2 && exit 2 ;;
esac
