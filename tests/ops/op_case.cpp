#include "tests/ops/op_case.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

std::vector<Argument> on_meta(std::vector<Argument> arguments) {
  for (Argument& argument : arguments) {
    if (auto* const tensor = std::get_if<Tensor>(&argument)) *tensor = tensor->to(at::kMeta);
    if (auto* const list = std::get_if<Tensors>(&argument))
      for (Tensor& tensor : *list) tensor = tensor.to(at::kMeta);
  }
  return arguments;
}

}  // namespace

Tensors checked_call(const std::string& name, const std::vector<Argument>& arguments) {
  const Tensors results = call_op(name, arguments), foretold = call_op(name, on_meta(arguments));
  REQUIRE(results.size() == foretold.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    CHECK(results[i].sizes() == foretold[i].sizes());
    CHECK(results[i].strides() == foretold[i].strides());
    CHECK(results[i].scalar_type() == foretold[i].scalar_type());
  }
  return results;
}

void check_refused(const std::string& words, const std::string& name,
                   const std::vector<Argument>& arguments) {
  const auto matcher = Catch::Matchers::MessageMatches(Catch::Matchers::ContainsSubstring(words));
  CHECK_THROWS_MATCHES(call_op(name, arguments), Error, matcher);
  CHECK_THROWS_MATCHES(call_op(name, on_meta(arguments)), Error, matcher);
}

Tensor wide(const Tensor& tensor) { return tensor.detach().to(at::kDouble).set_requires_grad(true); }

at::ScalarType any_dtype() { return GENERATE(at::kFloat, at::kBFloat16, at::kDouble); }

Tensor rows(const std::string& layout, std::int64_t count, std::int64_t width, at::ScalarType dtype) {
  if (layout == "apart") return at::randn({count, width + 5}).to(dtype).narrow(1, 3, width);
  if (layout == "transposed") return at::randn({width, count}).to(dtype).t();
  if (layout == "deep") return at::randn({2, count, width}).to(dtype);
  return at::randn({count, width}).to(dtype);
}

void check_close(const Tensor& made, const Tensor& expected) {
  const at::ScalarType dtype = made.scalar_type();
  const double tolerance = dtype == at::kBFloat16 ? 4e-3 : dtype == at::kDouble ? 1e-13 : 2e-5;
  CHECK(made.sizes() == expected.sizes());
  CHECK(at::allclose(made.to(at::kDouble), expected, tolerance, tolerance));
}

void check_same_with_threads(const std::function<Tensors()>& run) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Tensors one = run();
  at::set_num_threads(2);
  const Tensors two = run();
  at::set_num_threads(threads);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(at::equal(one[i], two[i]));
}

}  // namespace rondo
