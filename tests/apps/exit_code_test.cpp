// How what nobody catches ends a program.
#include "apps/exit_code.h"

#include <catch2/catch_test_macros.hpp>
#include <filesystem>

namespace rondo {
namespace {

template <class Thrown>
int code_of(const Thrown& thrown) {
  return exit_code_of([&]() -> int { throw thrown; });
}

TEST_CASE("too few descriptors, threads or bytes of memory are 9, wherever they are missing") {
  using std::filesystem::filesystem_error;
  CHECK(code_of(filesystem_error("x", std::make_error_code(std::errc::too_many_files_open))) == 9);
  CHECK(code_of(filesystem_error("x", std::make_error_code(std::errc::not_enough_memory))) == 9);
  CHECK(code_of(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again))) == 9);
  CHECK(code_of(std::bad_alloc()) == 9);
  CHECK(code_of(filesystem_error("x", std::make_error_code(std::errc::not_a_directory))) == 1);
  CHECK(code_of(std::runtime_error("x")) == 1);
  CHECK(code_of(Error(ExitCode::data, "x")) == 4);
}

}  // namespace
}  // namespace rondo
