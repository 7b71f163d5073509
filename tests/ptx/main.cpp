// Runs the cases. A run of all of them must also have launched each kernel, but for those of a
// list.
#include <catch2/catch_session.hpp>
#include <cstdio>

#include "tests/ptx/program.h"

namespace {

// Kernels that no case launches: file and template arguments, as in the mangled name.
struct Exception {
  const char *file, *arguments, *reason;
};
constexpr Exception kExceptions[] = {
    {"add_widened_cu", "I13__nv_bfloat16fL", "the op refuses fp32 beside a bf16 sum"},
    {"attention_cu", "Li8E", "cases have heads of at most 128"},
    {"attention_cu", "Li16E", "cases have heads of at most 128"},
    {"normal_draws_cu", "draw_kernelId", "cases draw f32 and bf16"},
};

}  // namespace

int main(int count, char** arguments) {
  const int failed = Catch::Session().run(count, arguments);
  if (failed != 0 || count > 1) return failed;
  int problems = 0;
  std::vector<bool> is_used(std::size(kExceptions));
  for (const std::string& name : rondo::ptx::kernels_not_launched()) {
    bool is_listed = false;
    for (std::size_t i = 0; i < is_used.size(); ++i)
      if (name.find(kExceptions[i].file) != std::string::npos &&
          name.find(kExceptions[i].arguments) != std::string::npos)
        is_listed = is_used[i] = true;
    if (is_listed) continue;
    ++problems;
    std::printf("ptx_test: no case launches %s; add one to tests/cuda/*_kernels_test.cpp\n", name.c_str());
  }
  for (std::size_t i = 0; i < is_used.size(); ++i) {
    if (is_used[i]) continue;
    ++problems;
    std::printf("ptx_test: cases launch all kernels %s of %s; remove their line from tests/ptx/main.cpp\n",
                kExceptions[i].arguments, kExceptions[i].file);
  }
  return problems == 0 ? 0 : 1;
}
