# Writes OUT, the source of trainer/observe/commit.h, anew where the commit is another: cmake -DOUT=... -DROOT=... -P commit.cmake
get_filename_component(above ${ROOT} DIRECTORY)
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env GIT_CEILING_DIRECTORIES=${above}
    git --no-optional-locks -C ${ROOT} describe --always --abbrev=12 --dirty --exclude=*
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit unknown)
endif()
set(text "// Written by cmake/commit.cmake.
#include \"trainer/observe/commit.h\"

namespace rondo {

std::string_view build_commit() { return \"${commit}\"; }

}  // namespace rondo
")
set(before)
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${OUT} "${text}")
endif()
