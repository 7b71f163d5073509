// Lists the models. All code that looks up a model by name uses this list. To add a model, create a
// folder next to llama3/ and add its type here. A model is a struct of sizes, and its flavors are
// the files of sizes/. It has
//
//   kName                model.name
//   fields()             its keys, with ranges and meanings
//   problems()           the violated rules between fields; each field is within its own range
//   shared()             the sizes that ranks divide when they share layers or experts
//   description()        the description that defines its parameters and its forward
//   plain()              the values that identify the model: derived widths written out; fields
//                        that concern training only or have no effect left out
//   for_rows(longest)    optional: a flavor's sizes for sequences of at most `longest` tokens
//   small()              the same architecture with few, narrow layers: sizes that ranks share are
//                        24, which 2, 3, 4, 6 and 8 ranks can divide; none of these divides the
//                        vocabulary and the width
//   hugging_face_type()  its names at Hugging Face
//
// No LibTorch.
#pragma once

#include <tuple>

#include "models/deepseek_v3/deepseek_v3.h"
#include "models/gpt_oss/gpt_oss.h"
#include "models/llama3/llama3.h"
#include "models/llama4/llama4.h"
#include "models/olmo2/olmo2.h"
#include "models/qwen3/qwen3.h"
#include "models/qwen3_moe/qwen3_moe.h"

namespace rondo {

using Models = std::tuple<Llama3Config, DeepSeekV3Config, Qwen3Config, Qwen3MoeConfig, Olmo2Config,
                          GptOssConfig, Llama4Config>;

}  // namespace rondo
