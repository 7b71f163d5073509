# The headers of nvidia-cudnn-frontend (MIT), for attention of documents, chunks and windows by cuDNN
# (ops/attention/attention_cudnn.h). Optional: without them such attention takes FlashAttention-2. cuDNN itself is the one
# beside LibTorch, loaded at run time.
#
# The folder that holds cudnn_frontend.h is taken from, in this order:
#   -DCUDNN_FRONTEND_DIR=..., the environment's CUDNN_FRONTEND_DIR, include beside LibTorch, .deps/python/include
#   (scripts/setup.sh --cuda), .deps/oracles/include (scripts/setup.sh --oracles)
set(RONDO_CUDNN_FRONTEND_VERSION 1.32.0)

if(NOT CUDNN_FRONTEND_DIR)
  set(CUDNN_FRONTEND_DIR $ENV{CUDNN_FRONTEND_DIR})
endif()
if(CUDNN_FRONTEND_DIR)
  set(_candidates ${CUDNN_FRONTEND_DIR})
else()
  set(_candidates ${TORCH_DIR}/../include ${CMAKE_SOURCE_DIR}/.deps/python/include ${CMAKE_SOURCE_DIR}/.deps/oracles/include)
endif()
set(_versions)
foreach(_folder IN LISTS _candidates)
  if(EXISTS ${_folder}/cudnn_frontend_version.h AND NOT TARGET cudnn_frontend)
    file(STRINGS ${_folder}/cudnn_frontend_version.h _lines REGEX "define CUDNN_FRONTEND_[A-Z]+_VERSION")
    string(REGEX REPLACE "[^0-9;]" "" _numbers "${_lines}")
    list(JOIN _numbers "." _version)
    list(APPEND _versions ${_version})
    if(_version STREQUAL RONDO_CUDNN_FRONTEND_VERSION)
      add_library(cudnn_frontend INTERFACE)
      target_include_directories(cudnn_frontend SYSTEM INTERFACE ${_folder})
    endif()
  endif()
endforeach()
find_path(CUDNN_INCLUDE cudnn.h NO_DEFAULT_PATH PATHS ${TORCH_DIR}/../nvidia ${CMAKE_SOURCE_DIR}/.deps/python/nvidia
  PATH_SUFFIXES cudnn/include)
set(RONDO_CUDNN_FRONTEND 0)
if(TARGET cudnn_frontend AND CUDNN_INCLUDE)
  set(RONDO_CUDNN_FRONTEND 1)
  target_include_directories(cudnn_frontend SYSTEM INTERFACE ${CUDNN_INCLUDE})
elseif(CUDNN_FRONTEND_DIR)
  message(FATAL_ERROR "No nvidia-cudnn-frontend ${RONDO_CUDNN_FRONTEND_VERSION} in ${CUDNN_FRONTEND_DIR} "
    "(versions found: \"${_versions}\"), or no cudnn.h beside LibTorch. Run scripts/setup.sh --cuda and unset "
    "CUDNN_FRONTEND_DIR, or set it to the folder include of an unpacked wheel of that version.")
else()
  message(STATUS "without nvidia-cudnn-frontend: no ${RONDO_CUDNN_FRONTEND_VERSION} in ${_candidates}, or no cudnn.h beside LibTorch")
endif()
