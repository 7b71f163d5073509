#include "apps/eval_options.h"

#include "support/flags/flags.h"

namespace rondo {

std::optional<EvalOptions> read_eval_options(const std::vector<std::string>& args) {
  EvalOptions options;
  std::string path;
  std::int64_t seq_len = 0, batch_size = 0, batches = 0;
  Flags flags(
      "eval",
      "Loss and perplexity of a stored model on data, by the step and the loader of a run's validation, "
      "as one rank.\n"
      "The checkpoint of a run is computed as that run does, on what it validates on; its other values "
      "are the defaults below.",
      "The loss is the mean over all valid tokens. What fills no batch is left out.\n\n"
      "Exit code: 0 done, 2 usage, 3 configuration, 4 data or tokenizer, 5 the checkpoint or the folder is "
      "damaged.");
  flags.positional("FROM", flag::text(&path), kModelSource, Need::required);
  flags.value(
      "--data", "PATHS", flag::text(&options.data),
      "files, folders and globs, separated by commas, all of it (default: what the run validates on)");
  flags.value("--batches", "N", flag::amount(&batches, 1),
              "how many (default: all of --data once, or as many as the run validates on)");
  flags.value("--batch-size", "N", flag::amount(&batch_size, 1),
              "sequences in a batch (default: the run's, or 1)");
  flags.value("--seq-len", "N", flag::amount(&seq_len, 1),
              "tokens in a sequence (default: the run's, or 2048, or the most that the model takes)");
  flags.value("--dtype", "NAME",
              flag::one_of(&options.dtype, names_of({Precision::float32, Precision::bfloat16})),
              "what is computed in: float32 or bfloat16 (default: the run's, or float32)");
  flags.value("--tokenizer", "bytes|PATH", flag::text(&options.tokenizer),
              "default: that of the folder or of the run");
  if (!flags.read(args)) return std::nullopt;
  if (flags.given("--seq-len")) options.seq_len = seq_len;
  if (flags.given("--batch-size")) options.batch_size = batch_size;
  if (flags.given("--batches")) options.batches = batches;
  options.model = find_model(path);
  if (options.data.empty()) {
    const auto config = config_of_run(options.model);
    if (!config)
      flags.fail({"--data is missing, and " + path + " is in no run folder that validates on any"});
    if (!config->validation.enable)
      flags.fail({"--data is missing, and the run of " + path + " does not validate"});
  }
  return options;
}

}  // namespace rondo
