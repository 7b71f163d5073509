// "model_type": "llama" and our llama3: the same model, under other names. Thread-safe.
#pragma once

#include <nlohmann/json.hpp>

#include "models/hugging_face/fields_reader.h"
#include "support/fields.h"

namespace rondo::hugging_face {

// Problems go to the reader; the values are good only where there are none.
FieldValues read_llama(FieldsReader& reader, std::vector<std::string>& problems);

// The fields that say what the model is.
nlohmann::json write_llama(const FieldValues& sizes);

}  // namespace rondo::hugging_face
