// What `rondo generate` is given. No LibTorch: rondo reads it before it starts the worker.
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
  std::string tokenizer;  // as tokenizer_of takes it
  Sampling sampling;
  std::int64_t max_new_tokens = 100;
  std::int64_t window =
      0;             // of the latest tokens, that the next one is computed from; 0: all the model takes
  bool ids = false;  // prints ids instead of text
};

// std::nullopt: --help was asked for, and is printed. Throws Error(usage), and what find_model throws.
std::optional<GenerateOptions> read_generate_options(const std::vector<std::string>& args);

}  // namespace rondo
