// Where a run stands, beside its tensors: what a checkpoint keeps of it so that a resumed run goes on as if
// it had never stopped.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/data/loader.h"

namespace rondo {

struct Progress {
  std::int64_t step = 0;           // optimizer steps done
  std::int64_t schedule_step = 0;  // the same for the learning rate; differs where a schedule began anew
  std::int64_t tokens_seen = 0;    // over all ranks
  DataState data;                  // of the next step
  // What was asked for when this line of steps began, so that a later resume does not do it again.
  std::int64_t went_back_to = -1;         // checkpoint.load_step
  std::vector<std::string> began_anew{};  // checkpoint.exclude_from_loading
};

// Manifest::train_state; the data's part stands in Manifest::data.
nlohmann::json train_state_json(const Progress& p);

// Throws Error(checkpoint) that starts with `origin` where a key is missing or wrong.
Progress progress_from_json(const nlohmann::json& train_state, const nlohmann::json& data,
                            std::string_view origin);

}  // namespace rondo
