#include "apps/plan_options.h"

#include <fmt/format.h>

#include <cstdio>

#include "apps/flag_reader.h"
#include "support/error.h"
#include "support/text/nearest.h"
#include "trainer/config/derived.h"
#include "trainer/config/load.h"

namespace rondo {
namespace {

constexpr const char* kHelp =
    "rondo plan CONFIG --world N [flags] [--section.key=value ...]   what a job of N ranks will take, and "
    "how\n"
    "fast it may be; nothing is run\n\n"
    "  --world N       ranks of the job\n"
    "  --device NAME   h200 (default), h100, h100-96gb, or cpu (this machine's memory)\n"
    "  --rank R        the rank to plan (default 0)\n"
    "  --timeline FILE writes a picture of the memory over the step, one HTML page\n"
    "  --json          the same numbers for programs\n\n"
    "Data, tokenizer and run folder need not exist. docs/plan.md says what the numbers assume.\n\n"
    "Exit code: 0 planned, whether it fits or not; 2 usage, 3 configuration, 10 the step cannot be recorded.";

constexpr std::int64_t kMostRanks = 1'000'000;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ExitCode::usage, "plan: " + what + "; `rondo plan --help` lists the flags");
}

// Keys of the configuration have a dot in their name; flags of the command have none.
bool is_key(const std::string& word) {
  return word.starts_with("--") && word.substr(0, word.find('=')).find('.') != std::string::npos;
}

struct Words {
  Arguments own, keys;
};
Words divide(const Arguments& args) {
  Words words;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!is_key(args[i])) {
      words.own.push_back(args[i]);
      continue;
    }
    words.keys.push_back(args[i]);
    const bool has_value = args[i].find('=') != std::string::npos;
    if (!has_value && i + 1 < args.size() && !args[i + 1].starts_with("--")) words.keys.push_back(args[++i]);
  }
  return words;
}

const ir::DeviceModel* device_named(const std::string& name) {
  if (const ir::DeviceModel* device = ir::find_device_model(name)) return device;
  std::vector<std::string> names;
  for (const ir::DeviceModel& device : ir::device_models()) names.emplace_back(device.name);
  fail(fmt::format("--device {} is not known{}", name, did_you_mean(name, names)));
}

}  // namespace

std::optional<PlanOptions> read_plan_options(const std::vector<std::string>& args) {
  Words words = divide(args);
  const FlagReader flags("plan", words.own, {"--world", "--device", "--rank", "--timeline"}, {"--json"});
  if (flags.has("--help")) {
    std::puts(kHelp);
    return std::nullopt;
  }
  if (flags.words.size() > 1)
    fail(fmt::format("one configuration, not {} and {}", flags.words[0], flags.words[1]));
  if (flags.words.empty()) fail("which configuration?");
  if (!flags.has("--world")) fail("--world N is missing: of how many ranks is the job?");
  words.keys.insert(words.keys.begin(), "--job.config_file=" + flags.words[0]);

  PlanOptions options;
  options.world = flags.number("--world", 1, 1);
  options.rank = flags.number("--rank", 0, 0);
  options.timeline = flags.text("--timeline", "");
  options.json = flags.has("--json");
  if (options.world > kMostRanks)
    fail(fmt::format("--world {} must be at most {}", options.world, kMostRanks));
  if (options.rank >= options.world)
    fail(fmt::format("--rank {} must be below --world {}", options.rank, options.world));
  options.device = device_named(flags.text("--device", "h200"));
  options.config = load_config(words.keys);
  resolve_layout(options.config, options.world);
  return options;
}

}  // namespace rondo
