// Names are in one table, in the order of the enum. A text is parsed from the left as digits, name
// and digits, with nothing after them.
#include "parallel/pipeline/action.h"

#include <fmt/format.h>

#include <algorithm>

#include "support/text/numbers.h"

namespace rondo::pipeline {
namespace {

constexpr std::array<std::string_view, kActionTypes> kActionNames = {
    "F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD"};

std::string_view leading_digits(std::string_view text) {
  return text.substr(0, std::min(text.find_first_not_of("0123456789"), text.size()));
}

}  // namespace

std::string_view name_of(ActionType type) { return kActionNames[static_cast<std::size_t>(type)]; }

std::string print(const Action& action) {
  const std::string microbatch = action.microbatch < 0 ? "" : fmt::format("{}", action.microbatch);
  return fmt::format("{}{}{}", action.stage, name_of(action.type), microbatch);
}

std::string read_action(std::string_view text, Action& action) {
  const std::string_view stage = leading_digits(text), rest = text.substr(stage.size());
  const std::string_view name = rest.substr(0, std::min(rest.find_first_of("0123456789"), rest.size()));
  const std::string_view microbatch = rest.substr(name.size());
  const auto match = std::find(kActionNames.begin(), kActionNames.end(), name);
  if (stage.empty() || match == kActionNames.end())
    return "must be a stage, a type and a microbatch, such as 0F3, 2SEND_B1 or 1REDUCE_GRAD";
  action = {-1, 0, static_cast<ActionType>(match - kActionNames.begin()), false};
  const auto stage_number = number_in<std::int32_t>(stage, 0, kMaxStages - 1);
  if (!stage_number) return fmt::format("must have a stage from 0 to {}", kMaxStages - 1);
  action.stage = static_cast<std::uint16_t>(*stage_number);
  if (is_of_stage(action.type))
    return microbatch.empty() ? "" : fmt::format("must name no microbatch: {} is per stage", name);
  const auto number = number_in<std::int32_t>(microbatch, 0, kMaxMicrobatches - 1);
  if (!number) return fmt::format("must end in a microbatch from 0 to {}", kMaxMicrobatches - 1);
  action.microbatch = *number;
  return "";
}

}  // namespace rondo::pipeline
