# LibTorch as imported targets. `find_package(Torch)` insists on a CUDA toolkit, so the libraries are named here.
#
# The folder that holds include/ and lib/ is taken from, in this order:
#   -DTORCH_DIR=..., the environment's TORCH_DIR, .deps/torch.path (written by scripts/setup.sh), .deps/python/torch
set(RONDO_TORCH_VERSIONS 2.11.0 2.15.0)  # the first is the one that set-up brings, and the only one for CUDA

if(NOT TORCH_DIR)
  if(DEFINED ENV{TORCH_DIR})
    set(TORCH_DIR $ENV{TORCH_DIR})
  elseif(EXISTS ${CMAKE_SOURCE_DIR}/.deps/torch.path)
    file(STRINGS ${CMAKE_SOURCE_DIR}/.deps/torch.path TORCH_DIR LIMIT_COUNT 1)
  else()
    set(TORCH_DIR ${CMAKE_SOURCE_DIR}/.deps/python/torch)
  endif()
endif()
get_filename_component(TORCH_DIR "${TORCH_DIR}" ABSOLUTE)
set(TORCH_DIR ${TORCH_DIR} CACHE PATH "LibTorch: the folder that holds include/ and lib/")

if(NOT EXISTS ${TORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "No LibTorch in ${TORCH_DIR} (no lib/libtorch_cpu.so). "
    "Run scripts/setup.sh, or set TORCH_DIR to an unpacked LibTorch (${RONDO_TORCH_VERSIONS}).")
endif()
file(STRINGS ${TORCH_DIR}/include/torch/headeronly/version.h _torch_version REGEX "^  \"[0-9.]+")
string(REGEX MATCH "[0-9.]+" _torch_version "${_torch_version}")
if(NOT _torch_version IN_LIST RONDO_TORCH_VERSIONS)
  message(FATAL_ERROR "LibTorch in ${TORCH_DIR} is ${_torch_version}, not one of: ${RONDO_TORCH_VERSIONS}. "
    "Run scripts/setup.sh to install the first of them beside the project.")
endif()

add_library(torch_headers INTERFACE)
add_library(torch::headers ALIAS torch_headers)
target_include_directories(torch_headers SYSTEM INTERFACE
  ${TORCH_DIR}/include ${TORCH_DIR}/include/torch/csrc/api/include)
target_compile_definitions(torch_headers INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)

# The NVIDIA wheels lie beside the torch folder; even libtorch_cpu.so needs two of them (CUDA runtime, CUPTI).
set(RONDO_NVIDIA_LIBS ${TORCH_DIR}/../nvidia/cu13/lib)
add_library(torch_cpu INTERFACE)
add_library(torch::cpu ALIAS torch_cpu)
# at::parallel_for is serial where its caller is compiled without OpenMP.
target_compile_options(torch_cpu INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
target_link_libraries(torch_cpu INTERFACE torch::headers fmt::wheel gomp
  -Wl,--no-as-needed ${TORCH_DIR}/lib/libtorch_cpu.so ${TORCH_DIR}/lib/libc10.so
  -Wl,-rpath,${TORCH_DIR}/lib -Wl,-rpath-link,${RONDO_NVIDIA_LIBS})

# The wheel's fmt 12, for code that knows no LibTorch, too. Never together with spdlog in one source file: Debian's spdlog
# wants its own fmt (support/log.cpp).
add_library(fmt_wheel STATIC ${CMAKE_SOURCE_DIR}/support/fmt.cpp)
add_library(fmt::wheel ALIAS fmt_wheel)
target_include_directories(fmt_wheel SYSTEM PUBLIC ${TORCH_DIR}/include)
