# Writes a header with the text of one file as a constant: cmake -DOUT=... -DFILE=... -DNAME=kConstant -P embed_text.cmake
file(READ ${FILE} text)
get_filename_component(name ${FILE} NAME)
file(WRITE ${OUT} "// Written by cmake/embed_text.cmake from ${name}.
#pragma once

#include <string_view>

namespace rondo {

inline constexpr std::string_view ${NAME} = R\"text(${text})text\";

}  // namespace rondo
")
