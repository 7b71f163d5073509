// What rondo does for a subcommand of rondo-worker before LibTorch is loaded: help, flags, configuration and
// passes, so that a mistake is reported in milliseconds. The worker reads the same words again, since it
// needs its own copy.
#include <cstdio>

#include "apps/commands.h"
#include "apps/convert_options.h"
#include "apps/logits_input.h"
#include "apps/plan_options.h"
#include "apps/subcommands.h"
#include "compiler/passes/pipeline.h"
#include "trainer/config/derived.h"
#include "trainer/config/help.h"
#include "trainer/config/load.h"

namespace rondo {

bool before_convert(const Arguments& args) { return read_convert_options(args).has_value(); }

bool before_logits(const Arguments& args) {
  const auto options = read_logits_options(args);
  if (!options) return false;
  read_sequences(options->tokens, options->gradients.empty() ? 1 : 2);
  return true;
}

bool before_plan(const Arguments& args) {
  const auto options = read_plan_options(args);
  if (!options) return false;
  ir::select_passes(ir::all_passes(),
                    compile_options(options->config, options->device.is_gpu ? "cuda" : "cpu"));
  return true;
}

bool before_train(const Arguments& args) {
  if (asks_help(args)) {
    std::puts("rondo train --job.config_file=FILE [--section.key=value ...]   trains as one rank\n");
    std::fputs(help_page("").c_str(), stdout);
    return false;
  }
  const JobConfig config = load_config(args);
  const std::string device = device_of(config);
  if (config.compile.enable) ir::select_passes(ir::all_passes(), compile_options(config, device));
  return true;
}

}  // namespace rondo
