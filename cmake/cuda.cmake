# CUDA: nvcc as a language of the build, and LibTorch's CUDA half as the target torch::cuda.
#
# The toolkit is taken from CUDA_HOME, /usr/local/cuda, the nvcc in PATH, or .deps/cuda (scripts/setup.sh --cuda makes
# that one out of wheels). The libraries that libtorch_cuda.so wants are taken from the NVIDIA wheels beside torch, from
# those in .deps/python, and then from the toolkit.
set(RONDO_CUDA_VERSION 13.0)
list(GET RONDO_TORCH_VERSIONS 0 RONDO_CUDA_TORCH_VERSION)
if(NOT _torch_version STREQUAL RONDO_CUDA_TORCH_VERSION)
  message(FATAL_ERROR "LibTorch in ${TORCH_DIR} is ${_torch_version}, which no GPU has run yet; CUDA builds take "
    "${RONDO_CUDA_TORCH_VERSION}. Set TORCH_DIR to that one, or unset TORCH_DIR and run scripts/setup.sh --cuda.")
endif()

find_program(NVCC_IN_PATH nvcc)
get_filename_component(_nvcc_folder "${NVCC_IN_PATH}" REALPATH)
get_filename_component(_nvcc_folder "${_nvcc_folder}" DIRECTORY)
find_path(CUDA_TOOLKIT NAMES bin/nvcc NO_DEFAULT_PATH
  PATHS $ENV{CUDA_HOME} /usr/local/cuda ${_nvcc_folder}/.. ${CMAKE_SOURCE_DIR}/.deps/cuda
  DOC "The CUDA toolkit: the folder that holds bin/nvcc")
if(NOT CUDA_TOOLKIT)
  message(FATAL_ERROR "No CUDA toolkit: no bin/nvcc in CUDA_HOME, /usr/local/cuda, PATH or .deps/cuda. "
    "Run scripts/setup.sh --cuda, or set CUDA_HOME to a CUDA ${RONDO_CUDA_VERSION} toolkit.")
endif()
set(CMAKE_CUDA_COMPILER ${CUDA_TOOLKIT}/bin/nvcc)
set(CMAKE_CUDA_ARCHITECTURES 90)
set(CMAKE_CUDA_STANDARD 20)
enable_language(CUDA)
# CMake 3.25 does not know that nvcc has C++20.
foreach(_kind STANDARD EXTENSION)
  if(NOT CMAKE_CUDA20_${_kind}_COMPILE_OPTION)
    set(CMAKE_CUDA20_${_kind}_COMPILE_OPTION -std=c++20)
  endif()
endforeach()
if(NOT CMAKE_CUDA_COMPILER_VERSION MATCHES "^${RONDO_CUDA_VERSION}")
  message(FATAL_ERROR "${CMAKE_CUDA_COMPILER} is CUDA ${CMAKE_CUDA_COMPILER_VERSION}; LibTorch ${RONDO_CUDA_TORCH_VERSION} "
    "is built with ${RONDO_CUDA_VERSION}. Set CUDA_HOME to that toolkit, or run scripts/setup.sh --cuda.")
endif()

set(_nvidia ${TORCH_DIR}/../nvidia ${CMAKE_SOURCE_DIR}/.deps/python/nvidia)
find_path(NCCL_INCLUDE nccl.h REQUIRED NO_DEFAULT_PATH
  PATHS ${_nvidia} ${CUDA_TOOLKIT} PATH_SUFFIXES nccl/include include)
find_library(NCCL_LIBRARY NAMES libnccl.so.2 REQUIRED NO_DEFAULT_PATH
  PATHS ${_nvidia} ${CUDA_TOOLKIT} PATH_SUFFIXES nccl/lib lib64)
find_library(CUBLASLT NAMES libcublasLt.so.13 REQUIRED NO_DEFAULT_PATH
  PATHS ${_nvidia} ${CUDA_TOOLKIT} PATH_SUFFIXES cu13/lib lib64)
find_library(CUDART NAMES libcudart.so libcudart.so.13 REQUIRED NO_DEFAULT_PATH
  PATHS ${CUDA_TOOLKIT}/lib64 ${_nvidia} PATH_SUFFIXES cu13/lib)

# Where the loader finds what libtorch_cuda.so wants. The old kind of run path (RPATH), because the new kind is not
# searched for the libraries of a library.
set(_run_path)
foreach(folder ${_nvidia})
  foreach(package cu13 nccl cudnn cusparselt nvshmem)
    list(APPEND _run_path ${folder}/${package}/lib)
  endforeach()
endforeach()
list(APPEND _run_path ${CUDA_TOOLKIT}/lib64)
list(TRANSFORM _run_path PREPEND "-Wl,-rpath,")

# --no-as-needed: nothing refers to libtorch_cuda.so by name; it registers its kernels when it is loaded.
# --allow-shlib-undefined: linking needs none of the 3.4 GB of libraries that running on a GPU needs.
add_library(torch_cuda INTERFACE)
add_library(torch::cuda ALIAS torch_cuda)
target_include_directories(torch_cuda SYSTEM INTERFACE ${NCCL_INCLUDE} ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
target_compile_definitions(torch_cuda INTERFACE USE_C10D_NCCL)
target_link_libraries(torch_cuda INTERFACE torch::cpu
  -Wl,--no-as-needed ${TORCH_DIR}/lib/libtorch_cuda.so ${TORCH_DIR}/lib/libc10_cuda.so ${CUDART} ${CUBLASLT} ${NCCL_LIBRARY}
  -Wl,--allow-shlib-undefined -Wl,--disable-new-dtags ${_run_path})
