// "model_type": "deepseek_v3" and our deepseek_v3: the same model, under other names. Thread-safe.
#pragma once

#include <nlohmann/json.hpp>

#include "models/hugging_face/fields_reader.h"
#include "support/fields.h"

namespace rondo::hugging_face {

// Problems go to the reader; the values are good only where there are none.
FieldValues read_deepseek(FieldsReader& reader, std::vector<std::string>& problems);

// The fields that say what the model is. Throws Error(checkpoint) for a model that transformers has not: with
// softmax scores, without shared experts, or with another epsilon inside attention.
nlohmann::json write_deepseek(const FieldValues& sizes);

}  // namespace rondo::hugging_face
