// The end of a program: prints the message of an exception to stderr and turns its code into the
// exit code. Also fails if stdout did not accept all results, which exit code 0 would hide.
#pragma once

#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <system_error>

#include "support/error.h"
#include "support/files/file_error.h"
#include "support/printable.h"

namespace rondo {

// Throws Error(resources) if stdout lost some output.
inline void require_printed() {
  if (std::cout.flush() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw Error(ExitCode::resources,
              "standard output is incomplete: a write failed; free disk space, or redirect it elsewhere");
}

// Runs `body`. Returns its result, or the exit code of its exception.
template <class Body>
int exit_code_of(Body body) {
  try {
    const int code = body();
    require_printed();
    return code;
  } catch (const Error& error) {
    std::fprintf(stderr, "rondo: error: %s\n", printable(error.what(), kMaxMessageBytes).c_str());
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    std::fputs("rondo: error: out of memory; free some or raise the limit (ulimit -v)\n", stderr);
    return static_cast<int>(ExitCode::resources);
  } catch (const std::system_error& error) {
    // For example a folder that cannot be listed or a thread that cannot start.
    const bool lacks = error.code() == std::errc::resource_unavailable_try_again ||
                       exit_code_of(error.code().value(), FileUse::run) == ExitCode::resources;
    std::fprintf(stderr, "rondo: %serror: %s%s\n", lacks ? "" : "internal ",
                 printable(error.what(), kMaxMessageBytes).c_str(),
                 lacks ? "; raise the limit (ulimit -a), or free some" : "");
    return static_cast<int>(lacks ? ExitCode::resources : ExitCode::internal);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rondo: internal error: %s\n", printable(error.what(), kMaxMessageBytes).c_str());
    return static_cast<int>(ExitCode::internal);
  }
}

}  // namespace rondo
