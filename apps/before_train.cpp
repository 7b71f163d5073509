// What `rondo train` does before LibTorch is loaded: help, and a check of the configuration, so that a
// mistake in it is reported in milliseconds.
#include <algorithm>
#include <cstdio>

#include "apps/commands.h"
#include "compiler/passes/pipeline.h"
#include "trainer/config/derived.h"
#include "trainer/config/help.h"
#include "trainer/config/load.h"

namespace rondo {

bool before_train(const Arguments& args) {
  const auto asks_help = [](const std::string& word) { return word == "--help" || word == "-h"; };
  if (std::any_of(args.begin(), args.end(), asks_help)) {
    std::fputs("rondo train --job.config_file=FILE [--section.key=value ...]   trains as one rank\n\n",
               stdout);
    std::fputs(help_page("").c_str(), stdout);
    return false;
  }
  const JobConfig config = load_config(args);  // throws; the worker, which needs its own copy, loads it again
  const std::string device = device_of(config);
  if (config.compile.enable) ir::select_passes(ir::all_passes(), compile_options(config, device));
  return true;
}

}  // namespace rondo
