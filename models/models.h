// The models that exist: everything that names a model goes through this list. Adding one is a folder beside
// llama3/ and its type here. A model is a struct of sizes; its flavors are the files of sizes/. It has
//
//   kName                model.name
//   fields()             its keys, with ranges and meanings
//   problems()           the rules between fields that do not hold; each field alone is within its range
//   shared()             what ranks that share layers or experts divide
//   description()        what it is made of, which is its parameters and its forward
//   plain()              what tells one model from another: widths spelt out that may be left to follow from
//                        others; without what concerns training alone, and fields that have no effect
//   for_rows(longest)    a flavor's sizes for rows of at most so many tokens, in a model where they depend on
//   it small()              the same parts, few and narrow: 24 of what ranks share, so that 2, 3, 4, 6 and 8
//   of
//                        them can; a vocabulary and a width that none of these divides
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
