# The small libraries: system packages, or packages unpacked without root into .deps/root by scripts/setup.sh.
if(EXISTS ${CMAKE_SOURCE_DIR}/.deps/root/usr)
  list(PREPEND CMAKE_PREFIX_PATH ${CMAKE_SOURCE_DIR}/.deps/root/usr)
endif()

find_package(Threads REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)

# Header-only all three, so that a build runs on machines that have none of these packages (a cluster's compute nodes,
# or a build against packages unpacked without root). Their own CMake files would ask for shared libraries.
find_path(TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)
add_library(tomlplusplus INTERFACE)
add_library(tomlplusplus::header_only ALIAS tomlplusplus)
target_include_directories(tomlplusplus SYSTEM INTERFACE ${TOMLPLUSPLUS_INCLUDE})
target_compile_definitions(tomlplusplus INTERFACE TOML_HEADER_ONLY=1)
# Version 3.3 asserts that "[ = 1" is no table's name, and then reports it as it should: with assertions it would abort.
target_compile_options(tomlplusplus INTERFACE "-DTOML_ASSERT(expr)=static_assert(true)")

# Debian's spdlog takes the system's fmt from beside it. Only for sources that do not use fmt::wheel.
find_path(SPDLOG_INCLUDE spdlog/spdlog.h REQUIRED)
add_library(spdlog INTERFACE)
add_library(spdlog::spdlog ALIAS spdlog)
target_include_directories(spdlog SYSTEM INTERFACE ${SPDLOG_INCLUDE})
target_compile_definitions(spdlog INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)

find_path(XXHASH_INCLUDE xxhash.h REQUIRED)
add_library(xxhash INTERFACE)
add_library(xxhash::header_only ALIAS xxhash)
target_include_directories(xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE})
target_compile_definitions(xxhash INTERFACE XXH_INLINE_ALL)

# Static, for the same reason: the package without root unpacks to headers and archives.
find_path(PCRE2_INCLUDE pcre2.h REQUIRED)
find_library(PCRE2_LIBRARY NAMES libpcre2-8.a REQUIRED)
add_library(pcre2 INTERFACE)
add_library(pcre2::static ALIAS pcre2)
target_include_directories(pcre2 SYSTEM INTERFACE ${PCRE2_INCLUDE})
target_compile_definitions(pcre2 INTERFACE PCRE2_STATIC)
target_link_libraries(pcre2 INTERFACE ${PCRE2_LIBRARY})

find_path(UTF8PROC_INCLUDE utf8proc.h REQUIRED)
find_library(UTF8PROC_LIBRARY NAMES libutf8proc.a REQUIRED)
add_library(utf8proc INTERFACE)
add_library(utf8proc::static ALIAS utf8proc)
target_include_directories(utf8proc SYSTEM INTERFACE ${UTF8PROC_INCLUDE})
target_compile_definitions(utf8proc INTERFACE UTF8PROC_STATIC)
target_link_libraries(utf8proc INTERFACE ${UTF8PROC_LIBRARY})

find_path(CRYPTO_INCLUDE openssl/hmac.h REQUIRED)
find_library(CRYPTO_LIBRARY NAMES libcrypto.a REQUIRED)
add_library(crypto INTERFACE)
add_library(crypto::static ALIAS crypto)
target_include_directories(crypto SYSTEM INTERFACE ${CRYPTO_INCLUDE})
target_link_libraries(crypto INTERFACE ${CRYPTO_LIBRARY} ${CMAKE_DL_LIBS} Threads::Threads)
# rondo-worker exports its symbols. libparquet.so exports an OpenSSL of its own, of another version, and must not get
# functions of this one.
target_link_options(crypto INTERFACE LINKER:--exclude-libs,libcrypto.a)
# Compressed text. Either may be missing: a file that needs it is then an error that says so
# (datasets/documents/decompressor.cpp). Static, as PCRE2.
add_library(compression INTERFACE)
foreach(library "ZLIB zlib.h libz.a" "ZSTD zstd.h libzstd.a")
  separate_arguments(library)
  list(GET library 0 name)
  list(GET library 1 header)
  list(GET library 2 archive)
  find_path(${name}_INCLUDE ${header})
  find_library(${name}_LIBRARY NAMES ${archive})
  if(${name}_INCLUDE AND ${name}_LIBRARY)
    target_include_directories(compression SYSTEM INTERFACE ${${name}_INCLUDE})
    target_link_libraries(compression INTERFACE ${${name}_LIBRARY})
    target_compile_definitions(compression INTERFACE RONDO_${name}=1)
  else()
    target_compile_definitions(compression INTERFACE RONDO_${name}=0)
    message(STATUS "without ${name}: no ${header} or no ${archive}")
  endif()
endforeach()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Relative paths: another clone of the same sources finds the same objects.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

if(RONDO_TESTS)
  find_package(Catch2 3 REQUIRED)
  include(Catch)
endif()
