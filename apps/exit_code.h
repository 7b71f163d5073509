// How a program of ours ends: what an exception says goes to stderr, and its code is the exit code.
#pragma once

#include <cstdio>
#include <exception>

#include "support/error.h"

namespace rondo {

// What `body` returns, or the code of what it throws.
template <class Body>
int exit_code_of(Body body) {
  try {
    return body();
  } catch (const Error& error) {
    std::fprintf(stderr, "rondo: error: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rondo: internal error: %s\n", error.what());
    return static_cast<int>(ExitCode::internal);
  }
}

}  // namespace rondo
