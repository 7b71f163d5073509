// The part of a worker's subcommand that runs before LibTorch is loaded: help, flags, configuration
// and passes, so mistakes are reported in milliseconds. The worker reads the same words again.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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

// Returns ", such as configs/llama3_8b.toml": the shipped files, in this folder or next to the
// program.
std::string presets() {
  for (const std::filesystem::path& folder :
       {std::filesystem::path("configs"), shared_folder() / "configs"}) {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
      if (entry.path().extension() == ".toml") names.push_back(entry.path().lexically_normal().string());
    std::sort(names.begin(), names.end());
    if (!names.empty()) return fmt::format(", such as\n  {}", fmt::join(names, "\n  "));
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
  const auto ask_for_config = [&] { flags.fail({"CONFIG is missing: name a TOML file" + presets()}); };
  if (args.empty()) ask_for_config();
  if (!flags.read(args)) return false;
  const JobConfig config = load_config_to_run(words);
  if (config.job.config_file.empty()) ask_for_config();
  require_datasets(config);
  return true;
}

}  // namespace rondo
