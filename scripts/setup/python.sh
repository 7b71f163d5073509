# shellcheck shell=bash disable=SC2154  # setup.sh sets its flags and may_be_root
# Wheels: LibTorch, Arrow, CUDA, build tools without root, and the packages tests compare with. Sourced by scripts/setup.sh.
# Nothing is installed into the machine's or the user's Python: every wheel is unpacked into a folder under .deps.

# A pip that runs, as the array `pip`: the interpreter's own, a private environment's, or Debian's pip wheel by path.
find_pip() {
  ((${#pip[@]})) && return
  if python3 -m pip --version >/dev/null 2>&1; then
    pip=(python3 -m pip)
  elif logged venv python3 -m venv "$DEPS/venv"; then
    pip=("$DEPS/venv/bin/python" -m pip)
  else
    rm -rf "$DEPS/venv"
    if ((may_be_root)); then
      install_with_root python3-pip
      pip=(python3 -m pip)
    else
      unpacked_pip_wheel >/dev/null || unpack_without_root python3-pip-whl
      pip=(env PYTHONPATH="$(unpacked_pip_wheel)" python3 -m pip)
    fi
  fi
}

unpacked_pip_wheel() { ls "$DEPS"/root/usr/share/python-wheels/pip-*.whl 2>/dev/null; }

# fetch_wheels FOLDER WHAT ARGUMENTS...: unpacks wheels and adds them to FOLDER, whole or not at all.
# pip would replace a package folder that two wheels share (nvidia/), so it unpacks aside and the trees are merged.
fetch_wheels() {
  local folder=$1 what=$2
  shift 2
  find_pip
  rm -rf "$folder.new"
  logged pip "${pip[@]}" install --disable-pip-version-check --no-input --no-warn-script-location --retries 2 \
    --root-user-action ignore --only-binary :all: --no-deps --target "$folder.new" "$@" ||
    fail "cannot install $what: $(last_error pip). Check the network and the package index (PIP_INDEX_URL)$no_wheel_hint."
  mkdir -p "$folder"
  cp -a --link --force "$folder.new/." "$folder/" && rm -rf "$folder.new"
}

bring_build_tools() {
  local no_wheel_hint=" or install cmake and ninja-build"
  cmake_is_new_enough && command -v ninja >/dev/null && return
  say "bringing cmake and ninja beside the project"
  fetch_wheels "$DEPS/tools" "cmake and ninja" "${TOOL_WHEELS[@]}"
  mkdir -p "$DEPS/bin"
  ln -sf ../tools/cmake/data/bin/cmake ../tools/cmake/data/bin/ctest ../tools/bin/ninja "$DEPS/bin/"
  PATH=$DEPS/bin:$PATH
}

# ---- LibTorch

torch_version_in() {  # FOLDER that holds include/ and lib/
  [[ -e $1/lib/libtorch_cpu.so ]] || return 1
  sed -n 's/^ *"\([0-9.]*\)[^"]*"$/\1/p' "$1/include/torch/headeronly/version.h" 2>/dev/null | head -n 1
}

# A build for CUDA takes the pinned version alone.
torch_fits() { [[ $1 == "$TORCH_VERSION" || ($1 == "$TORCH_ALSO" && $want_cuda == 0) ]]; }
torch_wanted() { ((want_cuda)) && echo "$TORCH_VERSION" || echo "$TORCH_VERSION or $TORCH_ALSO"; }

# The folders where a LibTorch may be already, best first. What the user names must fit; the others may.
find_torch() {
  local folder version
  if [[ -n ${TORCH_DIR:-} ]]; then
    version=$(torch_version_in "$TORCH_DIR") ||
      fail "TORCH_DIR=$TORCH_DIR holds no LibTorch (no lib/libtorch_cpu.so). Unset it, or name the folder of an unpacked LibTorch $TORCH_VERSION."
    torch_fits "$version" ||
      fail "TORCH_DIR=$TORCH_DIR is LibTorch ${version:-of an unknown version}; $(torch_wanted) is needed. Unset TORCH_DIR to install it beside the project."
    torch_dir=$TORCH_DIR
    return
  fi
  for folder in "$(head -n 1 "$DEPS/torch.path" 2>/dev/null)" \
    ${VIRTUAL_ENV:+"$VIRTUAL_ENV"/lib/python*/site-packages/torch} \
    ${CONDA_PREFIX:+"$CONDA_PREFIX"/lib/python*/site-packages/torch} \
    "$RONDO_ROOT/libtorch" "$DEPS/python/torch"; do
    if version=$(torch_version_in "$folder") && torch_fits "$version"; then
      torch_dir=$folder
      return
    fi
  done
  return 1
}

ensure_torch() {
  local no_wheel_hint=", or set TORCH_DIR to an unpacked LibTorch $TORCH_VERSION"
  if find_torch; then
    say "LibTorch $(torch_version_in "$torch_dir"): $torch_dir"
  elif ((check_only)); then
    problems+=("LibTorch $TORCH_VERSION")
    return
  else
    say "installing LibTorch $TORCH_VERSION beside the project (530 MB to download, 1.2 GB on disk)"
    fetch_wheels "$DEPS/python" "LibTorch $TORCH_VERSION" "${TORCH_WHEELS[@]}"
    torch_dir=$DEPS/python/torch
  fi
  ((check_only)) || printf '%s\n' "$(cd "$torch_dir" && pwd)" >"$DEPS/torch.path"
}

# ---- Arrow

# The folders where cmake/arrow.cmake looks. What the user names must fit; the others may.
find_arrow() {
  local folder folders=("${torch_dir:-$DEPS/python/torch}/../pyarrow" "$DEPS/python/pyarrow")
  [[ -n ${ARROW_DIR:-} ]] && folders=("$ARROW_DIR")
  for folder in "${folders[@]}"; do
    if grep -qs "ARROW_VERSION_STRING \"$ARROW_VERSION\"" "$folder/include/arrow/util/config.h" &&
      compgen -G "$folder/libparquet.so.*" >/dev/null; then
      arrow_dir=$folder
      return
    fi
  done
  [[ -z ${ARROW_DIR:-} ]] ||
    fail "ARROW_DIR=$ARROW_DIR holds no Arrow $ARROW_VERSION. Unset it, or name the folder pyarrow of an unpacked wheel."
  return 1
}

# Only Parquet and Arrow IPC files need it, so set-up goes on without it, and tries again when it is asked for.
ensure_arrow() {
  local arrow_dir no_wheel_hint=", or set ARROW_DIR to the folder pyarrow of an unpacked wheel"
  local fetch=(fetch_wheels "$DEPS/python" "Arrow $ARROW_VERSION" "pyarrow==$ARROW_VERSION")
  if find_arrow; then
    say "Arrow $ARROW_VERSION: $(cd "$arrow_dir" && pwd)"
  elif ((check_only)); then
    if ((want_arrow)); then problems+=("Arrow $ARROW_VERSION (scripts/setup.sh --arrow)"); fi
  else
    say "installing Arrow $ARROW_VERSION beside the project, for Parquet (55 MB to download, 170 MB on disk)"
    if ((want_arrow)); then
      "${fetch[@]}"
    elif ! ("${fetch[@]}"); then
      say "going on without Arrow: Parquet and Arrow IPC files will be refused until scripts/setup.sh --arrow brings it"
    fi
  fi
}

# ---- CUDA

ensure_cuda() {
  local no_wheel_hint="" wheels=("${CUDA_WHEELS[@]}")
  if ((check_only)); then
    [[ -e $DEPS/python/nvidia/nvshmem ]] || problems+=("the NVIDIA wheels (scripts/setup.sh --cuda)")
    return
  fi
  if ! command -v nvcc >/dev/null && [[ ! -x ${CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]]; then
    wheels+=("${NVCC_WHEELS[@]}" "${TORCH_WHEELS[@]:1}")
  fi
  say "installing the NVIDIA libraries beside the project (2 GB to download, 3.5 GB on disk)"
  fetch_wheels "$DEPS/python" "the NVIDIA wheels" "${wheels[@]}"
  [[ -x $DEPS/python/nvidia/cu13/bin/nvcc ]] && link_toolkit "$DEPS/python/nvidia/cu13" "$DEPS/cuda"
  return 0
}

# CMake wants a toolkit laid out as the installer does: bin, lib64, and libX.so without a version. The wheels have
# neither lib64 nor unversioned names, so .deps/cuda is a farm of links.
link_toolkit() {
  local from=$1 toolkit=$2 library
  rm -rf "$toolkit" && mkdir -p "$toolkit/lib"
  cp -as "$from/bin" "$toolkit/bin"
  ln -s "$from/include" "$from/nvvm" "$toolkit/"
  cp -as "$from/lib/." "$toolkit/lib/"
  ln -s lib "$toolkit/lib64"
  for library in "$toolkit"/lib/*.so.*; do
    [[ -e ${library%%.so.*}.so ]] || ln -s "$(basename "$library")" "${library%%.so.*}.so"
  done
}

# ---- what tests compare with

ensure_oracles() {
  local no_wheel_hint=""
  if ((check_only)); then
    [[ -d $DEPS/oracles ]] || problems+=("the packages tests compare with (scripts/setup.sh --oracles)")
    return
  fi
  say "installing the Python packages that tests compare with"
  rm -rf "$DEPS/oracles"
  fetch_wheels "$DEPS/oracles" "the packages of scripts/oracles.txt" -r "$RONDO_ROOT/scripts/oracles.txt"
  fetch_wheels "$DEPS/pinned_tools" "cmake and ninja" "${TOOL_WHEELS[@]}"  # CI configures with them
  if [[ ! -e $torch_dir/__init__.py && ! -d $DEPS/python/torch ]]; then
    say "installing PyTorch $TORCH_VERSION: the LibTorch found has no Python side"
    fetch_wheels "$DEPS/python" "PyTorch $TORCH_VERSION" "${TORCH_WHEELS[@]}"
  fi
  make_cuda_stand_ins
}

# `import torch` loads libtorch_cuda.so, which wants 3.4 GB of CUDA libraries. On a machine without a GPU nothing in
# them is ever called, so tests that compare with PyTorch on the CPU get stand-ins with the same names, whose functions
# abort. They lie in a folder of their own that only scripts/oracle_python.sh shows the loader, and real libraries
# found beside torch win over them.
make_cuda_stand_ins() {
  local folder=$DEPS/cuda_stand_ins torch_lib=$torch_dir/lib symbols name prefix
  [[ -e $torch_lib/libtorch_python.so ]] || torch_lib=$DEPS/python/torch/lib
  [[ -e $torch_lib/libtorch_cuda.so ]] || return 0
  rm -rf "$folder" && mkdir -p "$folder"
  symbols=$(nm -D --undefined-only "$torch_lib"/libtorch_{cuda,python,nvshmem}.so | awk 'NF == 2 { print $2 }' | sort -u)
  while read -r prefix name; do
    sed -nE "/^$prefix/p" <<<"$symbols" | stand_in_source >"$folder/stand_in.c"
    sed -nE "/^$prefix/p" <<<"$symbols" | stand_in_versions >"$folder/stand_in.map"
    gcc -w -shared -fno-builtin -o "$folder/$name" -Wl,-soname,"$name" -Wl,--version-script="$folder/stand_in.map" \
      "$folder/stand_in.c"
  done <<'LIBRARIES'
cublasLt libcublasLt.so.13
cublas[^L] libcublas.so.13
cudnn libcudnn.so.9
cufft libcufft.so.12
cuFile libcufile.so.0
curand libcurand.so.10
cusparse[^L] libcusparse.so.12
cusparseLt libcusparseLt.so.0
nccl libnccl.so.2
nvshmem libnvshmem_host.so.3
LIBRARIES
  rm -f "$folder"/stand_in.*
}

stand_in_source() { sed -E 's/@.*//; s/.*/void &(void) { __builtin_trap(); }/'; }

# Lines `name@VERSION` become the linker's version script. No library has both names with and without a version.
stand_in_versions() {
  awk -F@ 'NF > 1 { names[$NF] = names[$NF] " " $1 ";" }
    END { for (v in names) { print v " { global:" names[v] " };"; n++ }
          if (!n) print "{ global: *; };" }'
}
