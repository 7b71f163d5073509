// Flags of the command have no dot in their name; the configuration's reader gets the other words.
// The layout is resolved before the worker starts, so mismatched degrees are reported at once.
#include <fmt/format.h>

#include "apps/worker_options.h"
#include "config/derived/batch.h"
#include "config/derived/layout.h"
#include "config/load.h"
#include "parallel/pipeline/picture.h"
#include "support/flags/flags.h"
#include "support/text/nearest.h"

namespace rondo {
namespace {

constexpr std::string_view kDefaultDevice = "h200";

std::string read_device(const std::string& name, ir::DeviceModel& device) {
  if (const ir::DeviceModel* model = ir::find_device_model(name); model != nullptr) {
    device = *model;
    return "";
  }
  std::vector<std::string> names;
  std::string kinds;
  for (const ir::DeviceModel& known : ir::device_models()) {
    names.emplace_back(known.name);
    if (known.name.starts_with(name + "-")) kinds += (kinds.empty() ? "" : ", ") + std::string(known.name);
  }
  return kinds.empty() ? "is not known" + did_you_mean(name, names) : "has several kinds: " + kinds;
}

// Applies factors such as "matmul=0.9,network=0.5" to the device's rates. Returns the error, or "".
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

// Returns "h200 (default), ...".
std::string device_names() {
  std::string names;
  for (const ir::DeviceModel& known : ir::device_models())
    names += (names.empty() ? "" : ", ") + std::string(known.name) +
             (known.name == kDefaultDevice ? " (default)" : "");
  return names + "; cpu: with this machine's memory; or nvidia-smi's name of a GPU: \"NVIDIA H200\"";
}

}  // namespace

std::optional<PlanOptions> read_plan_options(const std::vector<std::string>& args) {
  PlanOptions options;
  options.device = *ir::find_device_model(kDefaultDevice);
  std::vector<std::string> keys;
  std::string rates;
  Flags flags("plan",
              "Estimates memory, communication and speed of a job of N ranks without running "
              "it.\n--section.key=value sets a key of the configuration, as for `rondo train`.",
              "Data, tokenizer and run folder need not exist. docs/plan.md has the assumptions.\n\nExit "
              "code: 0 planned, whether it fits or not; 2 usage, 3 configuration, 6 a file cannot be "
              "written, 10 the step cannot be recorded.");
  flags.positional("CONFIG ...", flag::append(&keys), "the configuration, TOML files", Need::required);
  flags.keys(&keys);
  flags.value("--world", "N", flag::amount(&options.world, 1, kMostRanks), "ranks of the job",
              Need::required);
  flags.value(
      "--device", "NAME", [&](const std::string& name) { return read_device(name, options.device); },
      device_names());
  flags.value("--rates", "LIST", flag::text(&rates),
              "measured factors of the device's rates: matmul=0.9,network=0.5; also attention, memory, "
              "links, exchange, contention");
  flags.value("--rank", "R", flag::whole(&options.rank, 0, kMostRanks - 1),
              "rank to plan (default: 0, or the rank of a pipeline with the most memory)");
  flags.value("--tokens", "N", flag::amount(&options.tokens, 1),
              "length of the run, such as 15T, instead of training.steps");
  flags.toggle("--search", &options.search, "search for faster ways, too, if the job fits");
  flags.value("--search-plans", "N", flag::amount(&options.search_plans, 0),
              fmt::format("most plans of the search, which is made for a job that does not fit or with "
                          "--search (default {}; 0: no search)",
                          kDefaultSearchPlans));
  flags.value("--timeline", "FILE", flag::text(&options.timeline),
              "write a picture of the memory over the step as an HTML page");
  flags.value(
      "--write", "FILE", flag::text(&options.picture),
      "write a picture of the pipeline's schedule with the planned times: .svg, or .html with numbers");
  flags.toggle("--json", &options.json, "print JSON");
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
    if (!follows_schedule(options.config))
      flags.fail({flags.as_given("--write") + " needs parallelism.pipeline_parallel_degree or "
                                              "parallelism.overlapped_microbatches above 1"});
  }
  resolve_layout(options.config, options.world);
  return options;
}

}  // namespace rondo
