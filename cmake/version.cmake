# Writes OUT, the source of support/version.h: -DOUT= -DSOURCE= -DVERSION= -DBUILD=. Run at every build; the file changes
# only with the commit. Where SOURCE is not the top of a git clone, or git is missing, no commit is known.
set(commit "")
execute_process(COMMAND git -C ${SOURCE} rev-parse --show-toplevel
  OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(NOT failed AND top STREQUAL SOURCE)
  execute_process(COMMAND git -C ${SOURCE} describe --always --dirty=-modified --abbrev=12 --exclude=*
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT [[
#include "support/version.h"

namespace rondo {

const char* version() { return "@VERSION@"; }
const char* commit() { return "@commit@"; }
const char* build_type() { return "@BUILD@"; }

}  // namespace rondo
]] @ONLY)
