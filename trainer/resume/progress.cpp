#include "trainer/resume/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "support/error.h"

namespace rondo {
namespace {

std::int64_t count(const nlohmann::json& object, const char* key, std::string_view origin,
                   std::int64_t least = 0) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer() || found->get<std::int64_t>() < least)
    throw Error(ExitCode::checkpoint, fmt::format("{}: train_state.{} is missing or no count", origin, key));
  return found->get<std::int64_t>();
}

std::vector<std::string> texts(const nlohmann::json& object, const char* key, std::string_view origin) {
  const auto found = object.find(key);
  const bool sound = found != object.end() && found->is_array() &&
                     std::all_of(found->begin(), found->end(), [](const auto& e) { return e.is_string(); });
  if (!sound)
    throw Error(ExitCode::checkpoint, fmt::format("{}: train_state.{} is missing or no list", origin, key));
  return found->get<std::vector<std::string>>();
}

}  // namespace

nlohmann::json train_state_json(const Progress& p) {
  return {{"step", p.step},
          {"schedule_step", p.schedule_step},
          {"tokens_seen", p.tokens_seen},
          {"went_back_to", p.went_back_to},
          {"began_anew", p.began_anew}};
}

Progress progress_from_json(const nlohmann::json& train_state, const nlohmann::json& data,
                            std::string_view origin) {
  Progress p;
  p.step = count(train_state, "step", origin);
  p.schedule_step = count(train_state, "schedule_step", origin);
  p.tokens_seen = count(train_state, "tokens_seen", origin);
  p.went_back_to = count(train_state, "went_back_to", origin, -1);
  p.began_anew = texts(train_state, "began_anew", origin);
  p.data = data_state_from_json(data.dump(), origin);
  return p;
}

}  // namespace rondo
