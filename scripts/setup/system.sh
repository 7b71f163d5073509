# shellcheck shell=bash disable=SC2154  # setup.sh sets check_only and may_be_root
# System packages. Sourced by scripts/setup.sh.
#
# One way for all cases: a private apt configuration under .deps/apt, made from the machine's own sources (so from its
# own mirror), with backports added on Debian 12. With root the packages are installed; without root they are
# downloaded and unpacked into .deps/root, where cmake/dependencies.cmake finds them. The machine's own apt
# configuration is never edited.

# package:file it must bring. A file below include/ is looked for in every include folder, a word in PATH.
SYSTEM_PACKAGES=(
  g++:g++
  cmake:cmake
  ninja-build:ninja
  libspdlog-dev:include/spdlog/spdlog.h
  libtomlplusplus-dev:include/toml++/toml.h
  libcli11-dev:include/CLI/CLI.hpp
  nlohmann-json3-dev:include/nlohmann/json.hpp
  libxxhash-dev:include/xxhash.h
  libpcre2-dev:include/pcre2.h
  libutf8proc-dev:include/utf8proc.h
  libssl-dev:include/openssl/hmac.h
  libcatch2-dev:include/catch2/catch_test_macros.hpp
)
# Installed along with the others, never asked for: faster builds, and compressed text.
OPTIONAL_TOOLS=(ccache mold)
OPTIONAL_LIBRARIES=(zlib1g-dev libzstd-dev)

read_os_release() {
  local file=${RONDO_OS_RELEASE:-/etc/os-release} values
  [[ -r $file ]] || fail "cannot tell which system this is: no $file. Supported: $SUPPORTED_SYSTEMS. $BY_HAND"
  # shellcheck disable=SC1090,SC2153  # ID and the others come from the file
  values=$(. "$file" && printf '%s\n' "${ID:-?}" "${VERSION_ID:-0}" "${VERSION_CODENAME:-?}" "${PRETTY_NAME:-$ID}")
  { read -r os_id; read -r os_version; read -r os_codename; read -r os_name; } <<<"$values"
}

SUPPORTED_SYSTEMS="Debian 12 and later, Ubuntu 24.04 and later"
BY_HAND="On another system install a C++20 compiler, CMake 3.25, Ninja, spdlog, fmt, toml++, CLI11, nlohmann-json, \
xxHash, PCRE2, utf8proc, OpenSSL and Catch2 3 (for compressed text zlib and libzstd, too) by its own means and run scripts/setup.sh again: it takes what it finds."

require_supported_system() {  # PACKAGE...: what it is wanted for
  read_os_release
  case $os_id in
    debian) ((${os_version%%.*} >= 12)) && return ;;
    ubuntu) ((${os_version%%.*} >= 24)) && return ;;
  esac
  fail "$os_name is not supported: packages are missing ($*), and set-up can fetch them only on" \
    "$SUPPORTED_SYSTEMS. $BY_HAND"
}

has_file() {
  local folder prefixes=${CMAKE_PREFIX_PATH:-}
  for folder in /usr /usr/local "$DEPS/root/usr" ${prefixes//:/ } ${CONDA_PREFIX:-}; do
    [[ -e $folder/$1 ]] && return
  done
  return 1
}

has_package() {  # PACKAGE:FILE
  case ${1#*:} in
    include/*) has_file "${1#*:}" ;;
    cmake) cmake_is_new_enough ;;
    *) command -v "${1#*:}" >/dev/null ;;
  esac
}

cmake_is_new_enough() {
  local version
  version=$(cmake --version 2>/dev/null | sed -n '1s/.* \([0-9]*\.[0-9]*\).*/\1/p')
  [[ -n $version ]] && { ((${version%.*} > 3)) || ((${version%.*} == 3 && ${version#*.} >= 25)); }
}

find_missing_packages() {
  local entry
  missing=()
  for entry in "${SYSTEM_PACKAGES[@]}"; do
    has_package "$entry" || missing+=("${entry%%:*}")
  done
  if ! command -v python3 >/dev/null; then missing+=(python3); fi
}

# Debian 12 has Catch2 2 in its main suite and 3 in backports. Its spdlog wants the package catch2, which must then be
# the transitional one of backports, in the same transaction, or the two do not go together. Ubuntu 24.04 has Catch2 3
# under its old name.
with_suites() {
  local package
  for package in "$@"; do
    case $os_codename:$package in
      bookworm:libcatch2-dev) printf '%s\n' libcatch2-dev/bookworm-backports catch2/bookworm-backports ;;
      noble:libcatch2-dev) echo catch2 ;;
      *) echo "$package" ;;
    esac
  done
}

# The machine's sources that speak of this release, with backports beside it on Debian 12.
write_private_sources() {
  local file etc=${RONDO_APT_ETC:-/etc/apt}
  remove_private_apt
  mkdir -p "$DEPS/apt/sources.list.d" "$DEPS/apt/lists/partial" "$DEPS/apt/cache/archives/partial"
  for file in "$etc"/sources.list "$etc"/sources.list.d/*.list "$etc"/sources.list.d/*.sources; do
    grep -qsE "^[^#]*[[:space:]]$os_codename(-updates|-security)?([[:space:]]|$)" "$file" || continue
    if [[ $os_codename != bookworm ]] || grep -qs bookworm-backports "$file"; then
      cp "$file" "$DEPS/apt/sources.list.d/"
    elif [[ $file == *.sources ]]; then
      sed -E '/^Suites:.*[[:space:]]bookworm([[:space:]]|$)/ s/$/ bookworm-backports/' "$file"
    else
      sed -E '/^deb .*[[:space:]]bookworm[[:space:]]/ { p; s/([[:space:]])bookworm[[:space:]].*/\1bookworm-backports main/ }' "$file"
    fi >"$DEPS/apt/sources.list.d/$(basename "$file")"
  done
}

private_apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$DEPS/apt/sources.list.d" \
    -o Dir::State::Lists="$DEPS/apt/lists" -o Dir::Cache="$DEPS/apt/cache" -o Acquire::Retries=3 \
    -o Acquire::Languages=none -o APT::Sandbox::User=root "$@"
}

remove_private_apt() { "${as_root[@]}" rm -rf "$DEPS/apt"; }

update_package_lists() {
  say "reading the package lists"
  write_private_sources
  logged apt-update private_apt update ||
    fail "cannot read the package lists: $(last_error apt-update). Check the network and the machine's apt sources."
}

install_with_root() {
  local -a wanted
  require_supported_system "$@"
  mapfile -t wanted < <(with_suites "$@" "${OPTIONAL_TOOLS[@]}" "${OPTIONAL_LIBRARIES[@]}")
  update_package_lists
  say "installing: ${wanted[*]}"
  logged apt-install private_apt install -y --no-install-recommends "${wanted[@]}" ||
    fail "apt-get install did not succeed: $(last_error apt-install). Details: $DEPS/log/apt-install.log"
  remove_private_apt
}

# Headers and static data need no installation. What is unpacked is what apt would install: dependencies too.
unpack_without_root() {
  local as_root=() wanted packages deb
  require_supported_system "$@"
  mapfile -t wanted < <(with_suites "$@" "${OPTIONAL_LIBRARIES[@]}")
  update_package_lists
  say "unpacking beside the project: $*"
  mapfile -t packages < <(private_apt -s install --no-install-recommends "${wanted[@]}" 2>"$DEPS/log/apt-plan.log" |
    sed -nE 's/^Inst ([^ ]+) .*\(([^ ]+) .*/\1=\2/p')
  ((${#packages[@]})) || fail "apt cannot resolve ${wanted[*]}: $(last_error apt-plan)"
  mkdir -p "$DEPS/root" "$DEPS/apt/debs"
  (cd "$DEPS/apt/debs" && logged apt-download private_apt download "${packages[@]}") ||
    fail "cannot download ${packages[*]}: $(last_error apt-download)"
  for deb in "$DEPS"/apt/debs/*.deb; do dpkg -x "$deb" "$DEPS/root"; done
  remove_private_apt
}

# What cannot come without root: the compiler and Python. cmake and ninja can, as wheels (python.sh).
explain_packages() {
  local wanted line
  wanted=$(with_suites "$@" | tr '\n' ' ')
  line="apt-get update && apt-get install -y --no-install-recommends $wanted"
  [[ $wanted == *backports* ]] && line="sed -i '/^Suites:.* bookworm / s/\$/ bookworm-backports/' \
/etc/apt/sources.list.d/debian.sources && $line"
  fail "missing: $*. Set-up may not install them here (no root, no password-free sudo). Ask an administrator to run:" \
    $'\n\n'"  $line"$'\n\n'"Then run scripts/setup.sh again."
}

ensure_system_packages() {
  local package needs_root=()
  find_missing_packages
  ((${#missing[@]})) || { say "system packages: all there"; return; }
  if ((check_only)); then problems+=("system packages: ${missing[*]}"); return; fi
  require_supported_system "${missing[@]}"
  if ((may_be_root)); then
    [[ " ${missing[*]} " == *" python3 "* ]] && missing+=(python3-pip)  # in the same go
    install_with_root "${missing[@]}"
  else
    for package in g++ python3; do
      [[ " ${missing[*]} " == *" $package "* ]] && needs_root+=("$package")
    done
    ((${#needs_root[@]})) && explain_packages "${needs_root[@]}"
    bring_build_tools
    find_missing_packages
    ((${#missing[@]})) && unpack_without_root "${missing[@]}"
  fi
  find_missing_packages
  ((${#missing[@]})) && explain_packages "${missing[@]}"
  say "system packages: done"
}
