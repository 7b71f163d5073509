// How a program of ours ends: what an exception says goes to stderr, and its code is the exit code.
#pragma once

#include <cstdio>
#include <exception>
#include <new>

#include "support/error.h"
#include "support/text/printable.h"

namespace rondo {

// What `body` returns, or the code of what it throws.
template <class Body>
int exit_code_of(Body body) {
  try {
    return body();
  } catch (const Error& error) {
    std::fprintf(stderr, "rondo: error: %s\n", printable(error.what()).c_str());
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    std::fputs("rondo: error: out of memory; free some or raise the limit (ulimit -v)\n", stderr);
    return static_cast<int>(ExitCode::resources);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rondo: internal error: %s\n", printable(error.what()).c_str());
    return static_cast<int>(ExitCode::internal);
  }
}

}  // namespace rondo
