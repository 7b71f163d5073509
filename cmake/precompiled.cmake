# Precompiled headers: two sets, each compiled once. LibTorch's headers are 350,000 lines, the others 150,000; nearly all
# of a file's compile time is theirs. -DRONDO_PRECOMPILED=OFF builds without, which shows an #include that is missing.
option(RONDO_PRECOMPILED "Precompile the headers of LibTorch and of the small libraries" ON)

file(WRITE ${CMAKE_BINARY_DIR}/precompiled.cpp "// Owns a set of precompiled headers.\n")
set(_host_headers <algorithm> <chrono> <cstdint> <filesystem> <fstream> <functional> <map> <memory> <optional> <set> <string>
  <string_view> <thread> <variant> <vector> <fmt/format.h> <nlohmann/json.hpp>)

add_library(precompiled_host OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
target_link_libraries(precompiled_host PRIVATE fmt::wheel nlohmann_json::nlohmann_json Threads::Threads)
add_library(precompiled_torch OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
target_link_libraries(precompiled_torch PRIVATE torch::cpu fmt::wheel nlohmann_json::nlohmann_json Threads::Threads)
if(RONDO_PRECOMPILED)
  target_precompile_headers(precompiled_host PRIVATE ${_host_headers})
  target_precompile_headers(precompiled_torch PRIVATE ${_host_headers}
    <ATen/core/Tensor.h> <ATen/core/dispatch/Dispatcher.h> <torch/library.h> <torch/csrc/autograd/custom_function.h>
    <torch/csrc/distributed/c10d/ProcessGroup.hpp>)
endif()

# rondo_precompiled(host|torch TARGET...): the targets take that set.
function(rondo_precompiled set)
  if(RONDO_PRECOMPILED)
    foreach(target IN LISTS ARGN)
      target_precompile_headers(${target} REUSE_FROM precompiled_${set})
    endforeach()
  endif()
endfunction()
