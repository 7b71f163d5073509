// The models that exist: everything that names a model goes through this list. Adding one is a folder
// models/x/ and its line here. x.h is the host half, without LibTorch: a struct of sizes like Llama3Config,
// with its name, its fields, the rules between them and its form at Hugging Face, and make_decoder(), which
// is defined in the LibTorch half, x.cpp.
#pragma once

#include <tuple>

#include "models/deepseek_v3/deepseek_v3.h"
#include "models/llama3/llama3.h"

namespace rondo {

using Models = std::tuple<Llama3Config, DeepSeekV3Config>;

}  // namespace rondo
