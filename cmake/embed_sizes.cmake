# Writes a header with the text of every size file: cmake -DOUT=... -DFOLDER=... -P embed_sizes.cmake
file(GLOB files RELATIVE ${FOLDER} ${FOLDER}/*/sizes/*.toml)
list(SORT files COMPARE NATURAL)
set(rows "")
foreach(file IN LISTS files)
  string(REGEX MATCH "^([^/]+)/sizes/([^/]+)\\.toml$" matched ${file})
  set(row "\"${CMAKE_MATCH_1}\", \"${CMAKE_MATCH_2}\"")
  file(READ ${FOLDER}/${file} text)
  string(APPEND rows "    EmbeddedSizes{${row}, R\"toml(${text})toml\"},\n")
endforeach()
list(LENGTH files count)
file(WRITE ${OUT} "// Written by cmake/embed_sizes.cmake from models/*/sizes/*.toml.
#pragma once

#include <array>
#include <string_view>

namespace rondo {

// models/<model>/sizes/<flavor>.toml
struct EmbeddedSizes {
  std::string_view model, flavor, toml;
};

inline constexpr std::array<EmbeddedSizes, ${count}> kEmbeddedSizes = {
${rows}};

}  // namespace rondo
")
