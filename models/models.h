// The models that exist: everything that names a model goes through this list. Adding one is a folder beside
// llama3/ and its type here. A model's header is its half without LibTorch (llama3.h): the sizes with their
// name, fields, rules and form at Hugging Face, and make_decoder(), which the other half defines
// (llama3.cpp).
#pragma once

#include <tuple>

#include "models/deepseek_v3/deepseek_v3.h"
#include "models/llama3/llama3.h"

namespace rondo {

using Models = std::tuple<Llama3Config, DeepSeekV3Config>;

}  // namespace rondo
