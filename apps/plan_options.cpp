// Flags of the command have no dot in their name; the other words go to the configuration's reader. The
// layout is resolved here, so that degrees that do not fit the number of ranks are reported before the worker
// starts.
#include "apps/plan_options.h"

#include "support/flags/flags.h"
#include "support/text/nearest.h"
#include "trainer/config/derived.h"
#include "trainer/config/load.h"

namespace rondo {
namespace {

constexpr std::int64_t kMostRanks = 1'000'000;

std::string read_device(const std::string& name, const ir::DeviceModel*& device) {
  device = ir::find_device_model(name);
  if (device != nullptr) return "";
  std::vector<std::string> names;
  for (const ir::DeviceModel& known : ir::device_models()) names.emplace_back(known.name);
  return "is not known" + did_you_mean(name, names);
}

}  // namespace

std::optional<PlanOptions> read_plan_options(const std::vector<std::string>& args) {
  PlanOptions options;
  options.device = ir::find_device_model("h200");
  std::vector<std::string> keys;
  Flags flags("plan",
              "What a job of N ranks will take, and how fast it may be; nothing is run. --section.key=value "
              "sets a key\n"
              "of the configuration, as for `rondo train`.",
              "Data, tokenizer and run folder need not exist. docs/plan.md says what the numbers assume.\n\n"
              "Exit code: 0 planned, whether it fits or not; 2 usage, 3 configuration, 10 the step cannot be "
              "recorded.");
  flags.positional("CONFIG ...", flag::append(&keys), "the configuration, TOML files", Need::required);
  flags.keys(&keys);
  flags.value("--world", "N", flag::amount(&options.world, 1, kMostRanks), "ranks of the job",
              Need::required);
  flags.value(
      "--device", "NAME", [&](const std::string& name) { return read_device(name, options.device); },
      "h200 (default), h100, h100-96gb, or cpu (this machine's memory)");
  flags.value("--rank", "R", flag::amount(&options.rank, 0), "the rank to plan (default 0)");
  flags.value("--timeline", "FILE", flag::text(&options.timeline),
              "writes a picture of the memory over the step, one HTML page");
  flags.toggle("--json", &options.json, "the same numbers for programs");
  if (!flags.read(args)) return std::nullopt;
  if (options.rank >= options.world)
    flags.fail({flags.as_given("--rank") + " must be below " + flags.as_given("--world")});
  options.config = load_config(keys, options.device->is_gpu ? "cuda" : "cpu");
  resolve_layout(options.config, options.world);
  return options;
}

}  // namespace rondo
