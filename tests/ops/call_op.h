// Calls Rondo's ops by name, as graphs do.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace rondo {

using Argument = std::variant<at::Tensor, std::vector<at::Tensor>, std::optional<at::Tensor>, std::int64_t,
                              double, bool, std::string, std::vector<std::int64_t>, std::vector<double>>;

// Returns the results of rondo::`name`, with lists flattened. Omitted arguments at the end have
// their defaults. Throws what the op throws, and c10::Error if this build has no such op.
std::vector<at::Tensor> call_op(const std::string& name, const std::vector<Argument>& arguments);

template <class... Args>
std::vector<at::Tensor> call(const std::string& name, const Args&... args) {
  return call_op(name, {Argument(args)...});
}

}  // namespace rondo
