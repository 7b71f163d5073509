// Sets options by name from text, for the flags of `rondo opt` and the cases of the golden tests.
// Messages name an option by its key of the configuration if it has one.
#include "compiler/ir/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <type_traits>

#include "support/error.h"

namespace rondo {
namespace {

template <class Number>
Number number_in(std::string_view option, const std::string& text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end)
    throw Error(ExitCode::config, fmt::format("{} = \"{}\" is not a number", option, text));
  return number;
}

template <auto Member>
void set_member(CompileOptions& options, std::string_view name, const std::string& text) {
  auto& member = options.*Member;
  using Value = std::remove_reference_t<decltype(member)>;
  if constexpr (NamedEnum<Value>) {
    member = value_named<Value>(name, text);
  } else if constexpr (std::is_same_v<Value, bool>) {
    member = number_in<int>(name, text) != 0;
  } else if constexpr (std::is_arithmetic_v<Value>) {
    member = number_in<Value>(name, text);
  } else if constexpr (std::is_same_v<Value, std::string>) {
    member = text;
  } else if constexpr (std::is_same_v<Value, std::map<std::string, std::string>>) {
    const std::size_t equals = std::min(text.find('='), text.size());
    member[text.substr(0, equals)] = text.substr(std::min(equals + 1, text.size()));
  } else {
    member.push_back(text);
  }
}

struct OptionSetter {
  std::string_view option;
  void (*set)(CompileOptions&, std::string_view name, const std::string& text);
  std::string_view key = option;  // its name in messages
};

using C = CompileOptions;
constexpr std::array kSetters = {
    OptionSetter{"passes", &set_member<&C::passes>},
    OptionSetter{"disable_passes", &set_member<&C::disable_passes>},
    OptionSetter{"numerics", &set_member<&C::numerics>, "compile.numerics"},
    OptionSetter{"device", &set_member<&C::device>},
    OptionSetter{"memory_policy", &set_member<&C::memory_policy>, "compile.memory_policy"},
    OptionSetter{"memory_budget", &set_member<&C::memory_budget>},
    OptionSetter{"memory_budget_gib", &set_member<&C::memory_budget_gib>},
    OptionSetter{"full_recompute_save_ops", &set_member<&C::full_recompute_save_ops>},
    OptionSetter{"reshard_after_forward", &set_member<&C::reshard_after_forward>,
                 "parallelism.fsdp_reshard_after_forward"},
    OptionSetter{"cpu_offload_budget_gib", &set_member<&C::cpu_offload_budget_gib>},
    OptionSetter{"cpu_offload_defer_n_layers", &set_member<&C::cpu_offload_defer_n_layers>},
    OptionSetter{"cpu_offload_prefetch_n_layers", &set_member<&C::cpu_offload_prefetch_n_layers>},
    OptionSetter{"matmul_algorithms", &set_member<&C::matmul_algorithms>},
    OptionSetter{"tensor_parallel_pieces", &set_member<&C::tensor_parallel_pieces>,
                 "compile.tensor_parallel_pieces"},
    OptionSetter{"gather_group_suffix", &set_member<&C::gather_group_suffix>},
    OptionSetter{"float8_weight_gathers", &set_member<&C::float8_weight_gathers>},
    OptionSetter{"early_step_in_backward", &set_member<&C::early_step_in_backward>},
    OptionSetter{"state_on_host", &set_member<&C::state_on_host>},
};

}  // namespace

void CompileOptions::set(std::string_view option, const std::string& value) {
  const auto setter = std::find_if(kSetters.begin(), kSetters.end(),
                                   [&](const OptionSetter& s) { return s.option == option; });
  if (setter == kSetters.end())
    throw Error(ExitCode::config, fmt::format("unknown compile option \"{}\"", option));
  setter->set(*this, setter->key, value);
}

}  // namespace rondo
