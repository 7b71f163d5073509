# Writes a header with the text of every size file: cmake -DOUT=... -DFOLDER=... -P embed_sizes.cmake
file(GLOB files ${FOLDER}/*/sizes/*.toml)
list(SORT files COMPARE NATURAL)
set(rows "")
foreach(file IN LISTS files)
  get_filename_component(stem ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND rows "    EmbeddedSizes{\"${stem}\", R\"toml(${text})toml\"},\n")
endforeach()
list(LENGTH files count)
file(WRITE ${OUT} "// Written by cmake/embed_sizes.cmake from models/*/sizes/*.toml.
#pragma once

#include <array>
#include <string_view>

namespace rondo {

struct EmbeddedSizes {
  std::string_view stem;  // <model>_<flavor>
  std::string_view toml;
};

inline constexpr std::array<EmbeddedSizes, ${count}> kEmbeddedSizes = {
${rows}};

}  // namespace rondo
")
