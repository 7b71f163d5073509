// The version of the program. The values are written at build time (cmake/version.cmake).
#pragma once

namespace rondo {

const char* version();     // "0.1.0"
const char* commit();      // "3f1c2d4e5a6b", with "-modified" if the sources differ; "": unknown
const char* build_type();  // "Release, CPU"

}  // namespace rondo
