// The part of a worker's subcommand that runs before LibTorch is loaded: help, flags, configuration
// and passes, so mistakes are reported in milliseconds. The worker reads the same words again.
#include <fmt/format.h>

#include <filesystem>

#include "apps/commands.h"
#include "apps/model_source.h"
#include "apps/worker_options.h"
#include "config/derived/paths.h"
#include "config/help.h"
#include "config/load.h"
#include "datasets/tokenizer/tokenizer.h"
#include "support/flags/flags.h"
#include "support/process_start.h"

namespace rondo {
namespace {

// Returns ", such as configs/llama3_debug.toml": a shipped file, in this folder or next to the
// program.
std::string preset() {
  for (const std::filesystem::path& folder :
       {std::filesystem::path("configs"), shared_folder() / "configs"}) {
    const std::filesystem::path file = folder / "llama3_debug.toml";
    if (std::error_code ignored; std::filesystem::exists(file, ignored))
      return fmt::format(", such as {}; others are beside it", file.lexically_normal().string());
  }
  return "";
}

}  // namespace

bool before_convert(const Arguments& args) { return read_convert_options(args).has_value(); }

bool before_eval(const Arguments& args) { return read_eval_options(args).has_value(); }

bool before_generate(const Arguments& args) {
  const auto options = read_generate_options(args);
  if (!options) return false;
  load_tokenizer(tokenizer_of(options->model, options->tokenizer));
  return true;
}

bool before_logits(const Arguments& args) {
  const auto options = read_logits_options(args);
  if (!options) return false;
  find_model(options->folder);
  read_sequences(options->tokens, options->gradients.empty() ? 1 : 2);
  return true;
}

bool before_plan(const Arguments& args) { return read_plan_options(args).has_value(); }

bool before_tune(const Arguments& args) { return read_tune_options(args).has_value(); }

bool before_train(const Arguments& args) {
  Arguments words;
  Flags flags("train", "Trains a model as one rank: alone, or started by launch, srun, mpirun or torchrun.",
              help_page(""));
  flags.positional("CONFIG ...", flag::append(&words), "TOML files; later values override earlier ones",
                   Need::required);
  flags.keys(&words);
  const auto ask_for_config = [&] { flags.fail({"CONFIG is missing: name a TOML file" + preset()}); };
  if (args.empty()) ask_for_config();
  if (!flags.read(args)) return false;
  const JobConfig config = load_config_to_run(words);
  if (config.job.config_file.empty()) ask_for_config();
  require_datasets(config);
  return true;
}

}  // namespace rondo
