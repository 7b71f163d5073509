// Arguments of `rondo generate`. No LibTorch: rondo reads them before it starts the worker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/model_source.h"
#include "apps/sampling.h"

namespace rondo {

struct GenerateOptions {
  ModelSource model;
  std::string prompt;
  std::string tokenizer;  // argument of tokenizer_of
  Sampling sampling;
  std::int64_t max_new_tokens = 100;
  std::int64_t window = 0;  // number of latest tokens in the context; 0: model.max_seq_len
  bool ids = false;         // prints ids instead of text
};

// Parses the arguments. Returns nullopt after printing --help. Throws Error(usage), and as
// find_model.
std::optional<GenerateOptions> read_generate_options(const std::vector<std::string>& args);

}  // namespace rondo
