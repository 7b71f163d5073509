# The small libraries: system packages, or packages unpacked without root into .deps/root by scripts/setup.sh.
if(EXISTS ${CMAKE_SOURCE_DIR}/.deps/root/usr)
  list(PREPEND CMAKE_PREFIX_PATH ${CMAKE_SOURCE_DIR}/.deps/root/usr)
endif()

find_package(Threads REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)

# toml++ header-only: Debian's package wants a shared library, which the executables must not need at run time.
find_path(TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)
add_library(tomlplusplus INTERFACE)
add_library(tomlplusplus::header_only ALIAS tomlplusplus)
target_include_directories(tomlplusplus SYSTEM INTERFACE ${TOMLPLUSPLUS_INCLUDE})
target_compile_definitions(tomlplusplus INTERFACE TOML_HEADER_ONLY=1)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

if(RONDO_TESTS)
  find_package(Catch2 3 REQUIRED)
  include(Catch)
endif()
