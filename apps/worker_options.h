// Arguments of the subcommands of rondo-worker. No LibTorch: rondo reads them before it starts the
// worker, so mistakes are reported in milliseconds, and the worker reads them again.
//
// Each read_x_options parses the words after the subcommand. It returns nullopt after printing
// --help, and throws Error(usage) for a flag.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "apps/model_source.h"
#include "apps/sampling.h"
#include "compiler/plan/cost_model.h"
#include "config/schema/job_config.h"
#include "plan/search_limit.h"

namespace rondo {

// Upper bound of the ranks of a planned or tuned job.
inline constexpr std::int64_t kMaxRanks = 1'000'000;

// `rondo config check`.
struct CheckOptions {
  JobConfig config;
  std::int64_t world = 1;  // ranks of the traced job
  bool traces = true;      // false with --no-trace, and for eager runs, which have no graph
};

struct PlanOptions {
  JobConfig config;
  std::vector<std::int64_t> worlds;      // ascending; several: a comparison
  std::vector<ir::DeviceModel> devices;  // at least one; several: a comparison
  std::optional<std::int64_t> rank;
  std::filesystem::path timeline;                   // empty: not written
  std::filesystem::path picture;                    // of the schedule or of the scaling; empty: not written
  std::int64_t tokens = 0;                          // of the run; 0: from training.steps
  double price_per_hour = 0;                        // of a GPU; 0: unknown
  bool search = false;                              // search for faster ways, too, if the job fits
  std::int64_t search_plans = kDefaultSearchPlans;  // 0: no search
  bool json = false, verbose = false;

  bool compares() const { return worlds.size() * devices.size() > 1; }
};

struct TuneOptions {
  JobConfig config;  // without compile.matmul_algorithms
  std::int64_t world = 1;
  std::filesystem::path out = "matmul_algorithms.json";
};

// Options of an evaluation. For a checkpoint in a run folder, defaults are the run's values.
struct EvalOptions {
  ModelSource model;
  std::string data;       // a data path; "": the run's validation data
  std::string tokenizer;  // argument of tokenizer_of
  std::optional<std::int64_t> seq_len, batch_size;
  std::optional<std::int64_t> batches;  // unset: all of `data`, or the run's number
  bool document_attention = false;      // false: the run's
  std::string dtype;                    // compute dtype; "": the run's, or float32
};

struct GenerateOptions {
  ModelSource model;
  std::string prompt;
  std::string tokenizer;  // argument of tokenizer_of
  Sampling sampling;
  std::int64_t max_new_tokens = 100;
  std::int64_t window = 0;  // number of latest tokens in the context; 0: model.max_seq_len
  bool ids = false;         // prints ids instead of text
};

struct ConvertOptions {
  std::filesystem::path from, to;
  bool to_hugging_face = false;  // false: from a Hugging Face folder to a checkpoint
  std::string dtype = "bfloat16";
  std::string tokenizer;  // argument of load_tokenizer; "": unknown
  std::uint64_t max_shard_bytes = 5'000'000'000;
};

struct LogitsOptions {
  std::string folder;     // argument of find_model (model_source.h)
  std::string tokens;     // token ids as text
  std::string out;        // safetensors file to write
  std::string gradients;  // safetensors file to write, or ""
};

// Also throw Error(config) for the configuration or the number of ranks.
std::optional<CheckOptions> read_check_options(const Arguments& args);
std::optional<PlanOptions> read_plan_options(const Arguments& args);
std::optional<TuneOptions> read_tune_options(const Arguments& args);
// Also throw what find_model throws.
std::optional<EvalOptions> read_eval_options(const Arguments& args);
std::optional<GenerateOptions> read_generate_options(const Arguments& args);
// FROM decides the direction: a checkpoint (step-N), a run folder or its folder of checkpoints (the
// newest committed one is used), or a folder with config.json. Also throws Error(checkpoint).
std::optional<ConvertOptions> read_convert_options(const Arguments& args);
std::optional<LogitsOptions> read_logits_options(const Arguments& args);

// Prints the notes and the fingerprint of a valid configuration.
void print_valid(const JobConfig& config);

using Sequences = std::vector<std::vector<std::int64_t>>;

// Reads the sequences of `rondo logits` from a text file: one per line, ids separated by blanks,
// all of the same length, at least `shortest`. Throws Error(data) with line and word.
Sequences read_sequences(const std::string& path, std::size_t shortest);

// Throws Error(data) for an id without an embedding.
void check_vocabulary(const Sequences& sequences, std::int64_t vocabulary, const std::string& path);

}  // namespace rondo
