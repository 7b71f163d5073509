#include "apps/worker_options.h"
#include "support/flags/flags.h"

namespace rondo {

std::optional<EvalOptions> read_eval_options(const std::vector<std::string>& args) {
  EvalOptions options;
  std::string path;
  std::int64_t seq_len = 0, batch_size = 0, batches = 0;
  Flags flags(
      "eval",
      "Computes loss and perplexity of a stored model on data, as one rank, with the step and the loader\nof "
      "a run's validation. For a checkpoint of a run, the run's validation data, dtype and sizes are\nthe "
      "defaults.",
      "The loss is the sum of the losses of all labels, divided by their number. No row counts "
      "twice.\n\nExit code: 0 "
      "done, 2 usage, 3 configuration, 4 data or tokenizer, 5 the checkpoint or the folder is damaged.");
  flags.positional("FROM", flag::text(&path), kModelSource, Need::required);
  flags.value("--data", "PATHS", flag::text(&options.data),
              "files, folders and globs, separated by commas, evaluated in full (default: the run's "
              "validation data)");
  flags.value("--batches", "N", flag::amount(&batches, 1),
              "number of batches, at most the data once (default: all of --data, or as many as the run's "
              "validation)");
  flags.value("--batch-size", "N", flag::amount(&batch_size, 1),
              "sequences per batch (default: the run's, or 1)");
  flags.value("--seq-len", "N", flag::amount(&seq_len, 1),
              "tokens per sequence (default: the run's, or 2048, at most model.max_seq_len)");
  flags.value("--dtype", "NAME",
              flag::one_of(&options.dtype, names_of({Precision::float32, Precision::bfloat16})),
              "compute dtype: float32 or bfloat16 (default: the run's, or float32)");
  flags.toggle("--document-attention", &options.document_attention,
               "attention within documents, as training.document_attention (default: the run's)");
  flags.value("--tokenizer", "bytes|PATH", flag::text(&options.tokenizer),
              "tokenizer (default: the folder's or the run's)");
  if (!flags.read(args)) return std::nullopt;
  if (flags.given("--seq-len")) options.seq_len = seq_len;
  if (flags.given("--batch-size")) options.batch_size = batch_size;
  if (flags.given("--batches")) options.batches = batches;
  options.model = find_model(path);
  if (options.data.empty()) {
    const auto config = config_of_run(options.model);
    if (!config)
      flags.fail({"--data is missing, because " + path + " is not in the folder of a run with validation"});
    if (!config->validation.enable)
      flags.fail({"--data is missing, because the run of " + path + " does not validate"});
  }
  return options;
}

}  // namespace rondo
