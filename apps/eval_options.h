// What `rondo eval` is given. No LibTorch: rondo reads it before it starts the worker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/model_source.h"

namespace rondo {

// What is not given is the run's own, where the model is a checkpoint in its run folder.
struct EvalOptions {
  ModelSource model;
  std::string data;       // a data path; "": what the run validates on
  std::string tokenizer;  // as tokenizer_of takes it
  std::optional<std::int64_t> seq_len, batch_size;
  std::optional<std::int64_t> batches;  // none: all of `data` once, or as many as the run validates on
  std::string dtype;                    // that the model computes in; ""
};

// std::nullopt: --help was asked for, and is printed. Throws Error(usage), and what find_model throws.
std::optional<EvalOptions> read_eval_options(const std::vector<std::string>& args);

}  // namespace rondo
