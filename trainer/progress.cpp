#include "trainer/progress.h"

#include <fmt/format.h>

#include "parallel/error.h"

namespace rondo {
namespace {

std::int64_t count(const nlohmann::json& object, const char* key, std::string_view origin) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer() || found->get<std::int64_t>() < 0)
    throw Error(ExitCode::checkpoint, fmt::format("{}: train_state.{} is missing or no count", origin, key));
  return found->get<std::int64_t>();
}

}  // namespace

Progress progress_from_json(const nlohmann::json& train_state, const nlohmann::json& data,
                            std::string_view origin) {
  Progress p;
  p.step = count(train_state, "step", origin);
  p.schedule_step = count(train_state, "schedule_step", origin);
  p.tokens_seen = count(train_state, "tokens_seen", origin);
  p.data = data_state_from_json(data.dump(), origin);
  return p;
}

}  // namespace rondo
