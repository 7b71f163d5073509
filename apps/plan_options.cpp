// Flags of the command have no dot in their name; the other words go to the configuration's reader. The
// layout is resolved here, so that degrees that do not fit the number of ranks are reported before the worker
// starts.
#include "apps/plan_options.h"

#include "config/derived/layout.h"
#include "config/load.h"
#include "parallel/pipeline/picture.h"
#include "support/flags/flags.h"
#include "support/text/nearest.h"

namespace rondo {
namespace {

constexpr std::string_view kDefaultDevice = "h200";

std::string read_device(const std::string& name, ir::DeviceModel& device) {
  if (const ir::DeviceModel* found = ir::find_device_model(name); found != nullptr) {
    device = *found;
    return "";
  }
  std::vector<std::string> names;
  for (const ir::DeviceModel& known : ir::device_models()) names.emplace_back(known.name);
  return "is not known" + did_you_mean(name, names);
}

// "matmul=0.9,network=0.5": factors on the device's rates. Returns what is wrong, or "".
std::string scale_rates(const std::string& rates, ir::DeviceModel& device) {
  for (const std::string& rate : split(rates, ',')) {
    const std::size_t equals = std::min(rate.find('='), rate.size());
    const auto factor = number_in<double>(rate.substr(std::min(equals + 1, rate.size())), 0.001, 1000.0);
    if (!factor || !ir::scale_rate(device, rate.substr(0, equals), *factor))
      return "must be a list of NAME=FACTOR, with matmul, attention, memory, links, network, exchange or "
             "contention, and factors from 0.001 to 1000";
  }
  return "";
}

// "h200 (default), ...".
std::string device_names() {
  std::string names;
  for (const ir::DeviceModel& known : ir::device_models())
    names += (names.empty() ? "" : ", ") + std::string(known.name) +
             (known.name == kDefaultDevice ? " (default)" : "");
  return names + "; cpu: with this machine's memory; or as nvidia-smi calls a GPU: \"NVIDIA H200\"";
}

}  // namespace

std::optional<PlanOptions> read_plan_options(const std::vector<std::string>& args) {
  PlanOptions options;
  options.device = *ir::find_device_model(kDefaultDevice);
  std::vector<std::string> keys;
  std::string rates;
  Flags flags("plan",
              "What a job of N ranks will take, and how fast it may be; nothing is run. --section.key=value "
              "sets a key\n"
              "of the configuration, as for `rondo train`.",
              "Data, tokenizer and run folder need not exist. docs/plan.md says what the numbers assume.\n\n"
              "Exit code: 0 planned, whether it fits or not; 2 usage, 3 configuration, 6 a file cannot be "
              "written, 10 the step cannot be recorded.");
  flags.positional("CONFIG ...", flag::append(&keys), "the configuration, TOML files", Need::required);
  flags.keys(&keys);
  flags.value("--world", "N", flag::amount(&options.world, 1, kMostRanks), "ranks of the job",
              Need::required);
  flags.value(
      "--device", "NAME", [&](const std::string& name) { return read_device(name, options.device); },
      device_names());
  flags.value("--rates", "LIST", flag::text(&rates),
              "factors on the device's rates, where a machine was measured: matmul=0.9,network=0.5; also "
              "attention, memory, links, exchange, contention");
  flags.value("--rank", "R", flag::whole(&options.rank, 0, kMostRanks - 1),
              "the rank to plan (default 0; of a pipeline the one with most memory)");
  flags.value("--tokens", "N", flag::amount(&options.tokens, 1),
              "length of the run, such as 15T, instead of training.steps");
  flags.value(
      "--search", "SECONDS", flag::number(&options.search_seconds, 0, 86400, "seconds"),
      "for what would make a job fit that does not, or one of several microbatches faster (default 30; "
      "0: no search)");
  flags.value("--timeline", "FILE", flag::text(&options.timeline),
              "writes a picture of the memory over the step, one HTML page");
  flags.value(
      "--write", "FILE", flag::text(&options.picture),
      "writes a picture of the pipeline's schedule in the planned times: .svg, or .html with numbers");
  flags.toggle("--json", &options.json, "the same numbers for programs");
  if (!flags.read(args)) return std::nullopt;
  if (options.rank.value_or(0) >= options.world)
    flags.fail({flags.as_given("--rank") + " must be below " + flags.as_given("--world")});
  if (!rates.empty())
    if (const std::string wrong = scale_rates(rates, options.device); !wrong.empty())
      flags.fail({flags.as_given("--rates") + " " + wrong});
  options.config = load_config(keys, options.device.is_gpu ? TargetDevice::cuda : TargetDevice::cpu);
  if (!options.picture.empty()) {
    if (const std::string rule = pipeline::broken_picture_name(options.picture); !rule.empty())
      flags.fail({flags.as_given("--write") + " " + rule});
    if (!options.config.parallelism.has_pipeline())
      flags.fail({flags.as_given("--write") + " needs parallelism.pipeline_parallel_degree above 1"});
  }
  resolve_layout(options.config, options.world);
  return options;
}

}  // namespace rondo
