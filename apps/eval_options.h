// Arguments of `rondo eval`. No LibTorch: rondo reads them before it starts the worker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/model_source.h"

namespace rondo {

// Options of an evaluation. For a checkpoint in a run folder, defaults are the run's values.
struct EvalOptions {
  ModelSource model;
  std::string data;       // a data path; "": the run's validation data
  std::string tokenizer;  // argument of tokenizer_of
  std::optional<std::int64_t> seq_len, batch_size;
  std::optional<std::int64_t> batches;  // unset: all of `data`, or the run's number
  std::string dtype;                    // compute dtype; "": the run's, or float32
};

// Parses the arguments. Returns nullopt after printing --help. Throws Error(usage), and as
// find_model.
std::optional<EvalOptions> read_eval_options(const std::vector<std::string>& args);

}  // namespace rondo
