// Flags of the command have no dot in their name; the configuration's reader gets the other words.
// The layout is resolved before the worker starts, so mismatched degrees are reported at once.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "apps/worker_options.h"
#include "config/derived/batch.h"
#include "config/derived/layout.h"
#include "config/device_file.h"
#include "config/load.h"
#include "parallel/pipeline/picture.h"
#include "support/flags/flags.h"
#include "support/text/nearest.h"

namespace rondo {
namespace {

constexpr std::string_view kDefaultDevice = "h200";

bool has_name(const std::vector<ir::DeviceModel>& devices, const std::string& name) {
  return std::any_of(devices.begin(), devices.end(),
                     [&](const ir::DeviceModel& device) { return device.name == name; });
}

// Appends the devices of a comma-separated list, without repeats. Returns why the list is refused,
// or "".
std::string read_devices(const std::string& list, std::vector<ir::DeviceModel>& devices) {
  devices.clear();
  for (const std::string& name : split(list, ',')) {
    if (const ir::DeviceModel* model = ir::find_device_model(name); model != nullptr) {
      if (!has_name(devices, model->name)) devices.push_back(*model);
      continue;
    }
    std::vector<std::string> names;
    std::string kinds;
    for (const ir::DeviceModel& known : ir::device_models()) {
      names.push_back(known.name);
      if (known.name.starts_with(name + "-")) kinds += (kinds.empty() ? "" : ", ") + known.name;
    }
    const std::string word = devices.empty() && name == list ? "" : "\"" + name + "\" ";
    return word + (kinds.empty()
                       ? "is not known" + did_you_mean(name, names) + "; --device-file describes others"
                       : "has several kinds: " + kinds);
  }
  return "";
}

ReadValue read_worlds(std::vector<std::int64_t>* worlds) {
  return [worlds](const std::string& list) -> std::string {
    worlds->clear();
    for (const std::string& word : split(list, ',')) {
      std::int64_t world = 0;
      if (const std::string rule = flag::amount(&world, 1, kMaxRanks)(word); !rule.empty()) return rule;
      worlds->push_back(world);
    }
    std::sort(worlds->begin(), worlds->end());
    worlds->erase(std::unique(worlds->begin(), worlds->end()), worlds->end());
    return "";
  };
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
    names += (names.empty() ? "" : ", ") + known.name + (known.name == kDefaultDevice ? " (default)" : "");
  return names +
         "; cpu: with this machine's memory; or nvidia-smi's name of a GPU: \"NVIDIA H200\"; or several: "
         "h100,b200";
}

// Figures of a machine that replace those of the device table.
struct Machine {
  std::optional<std::int64_t> gpus_per_node;
  std::optional<double> network_gbit_per_s, power_w;
  std::string rates;
};

// Applies the figures and adds them to the description, which plans print.
void apply(const Machine& machine, ir::DeviceModel& device, const Flags& flags) {
  const auto require = [&](const char* flag, const std::string& rule) {
    if (!rule.empty()) flags.fail({flags.as_given(flag) + " " + rule});
  };
  for (const char* flag : {"--gpus-per-node", "--network", "--power"})
    if (flags.given(flag) && !device.is_gpu) require(flag, "needs a GPU, and --device is cpu");
  if (const auto gpus = machine.gpus_per_node) {
    require("--gpus-per-node", ir::set_gpus_per_node(device, *gpus));
    device.what += fmt::format(", {} a node", *gpus);
  }
  if (const auto gbit_per_s = machine.network_gbit_per_s) {
    ir::set_network(device, *gbit_per_s);
    device.what += fmt::format(", {:g} Gb/s each", *gbit_per_s);
  }
  if (const auto watts = machine.power_w) {
    require("--power", ir::set_power(device, *watts));
    device.what += fmt::format(", {:g} W each", *watts);
  }
  if (!machine.rates.empty()) {
    require("--rates", scale_rates(machine.rates, device));
    device.what += ", rates " + machine.rates;
  }
}

// Checks flags that exclude each other.
void check_outputs(const PlanOptions& options, const Flags& flags) {
  if (options.compares()) {
    for (const char* flag : {"--search", "--timeline", "--verbose"})
      if (flags.given(flag)) flags.fail({std::string(flag) + " needs one --world and one --device"});
    if (options.picture.empty()) return;
    if (options.worlds.size() == 1)
      flags.fail({flags.as_given("--write") + " needs several numbers of ranks: --world 8,16,32"});
    if (options.picture.extension() != ".svg")
      flags.fail({flags.as_given("--write") + " must end in .svg for several numbers of ranks"});
  } else if (!options.picture.empty()) {
    if (const std::string rule = pipeline::broken_picture_name(options.picture); !rule.empty())
      flags.fail({flags.as_given("--write") + " " + rule});
    if (!follows_schedule(options.config))
      flags.fail(
          {flags.as_given("--write") +
           " needs parallelism.pipeline_parallel_degree or parallelism.overlapped_microbatches above 1, "
           "or several numbers of ranks"});
  }
  if (options.search && options.search_plans == 0)
    flags.fail({flags.as_given("--search-plans") + " must be above 0 with --search"});
}

}  // namespace

std::optional<PlanOptions> read_plan_options(const std::vector<std::string>& args) {
  PlanOptions options;
  std::vector<std::string> keys, files;
  Machine machine;
  Flags flags("plan",
              "Estimates memory, communication, speed and price of a job of N ranks without running "
              "it.\n--section.key=value sets a key of the configuration, as for `rondo train`.",
              "Data, tokenizer and run folder need not exist. docs/plan.md has the assumptions.\n\nExit "
              "code: 0 planned, whether it fits or not; 2 usage, 3 configuration or device file, 6 a file "
              "cannot be written, 10 the step cannot be recorded.");
  flags.positional("CONFIG ...", flag::append(&keys), "the configuration, TOML files", Need::required);
  flags.keys(&keys);
  flags.value("--world", "N", read_worlds(&options.worlds),
              "ranks of the job; several, such as 8,16,64, are compared", Need::required);
  flags.value(
      "--device", "NAME", [&](const std::string& list) { return read_devices(list, options.devices); },
      device_names());
  flags.value("--device-file", "FILE", flag::list(&files),
              "figures of a GPU as TOML, in place of or beside --device; docs/plan.md has the keys");
  flags.value("--gpus-per-node", "N", flag::whole(&machine.gpus_per_node, 1, ir::Card::kMaxGpusPerNode),
              "GPUs that share fast links, instead of the device's own");
  flags.value("--network", "GBIT", flag::number(&machine.network_gbit_per_s, 0.1, 1e5, "a number of Gb/s"),
              "network of each GPU in Gb/s each way, instead of the device's own");
  flags.value("--power", "W", flag::number(&machine.power_w, 1, 1e5, "a number of watts"),
              "power limit of each GPU, below the device's own; it slows products and attention");
  flags.value("--price", "USD", flag::number(&options.price_per_hour, 0.001, 1e6, "a number of dollars"),
              "dollars for an hour of one GPU");
  flags.value("--rates", "LIST", flag::text(&machine.rates),
              "measured factors of the device's rates: matmul=0.9,network=0.5; also attention, memory, "
              "links, exchange, contention");
  flags.value("--rank", "R", flag::whole(&options.rank, 0, kMaxRanks - 1),
              "rank to plan (default: 0, or the rank of a pipeline with the most memory)");
  flags.value("--tokens", "N", flag::tokens(&options.tokens),
              "length of the run, such as 100B, 1.5T or 2e9, instead of training.steps");
  flags.toggle("--search", &options.search, "search for faster ways, too, if the job fits");
  flags.value("--search-plans", "N", flag::amount(&options.search_plans, 0),
              fmt::format("most plans of the search, which is made for a job that does not fit or with "
                          "--search (default {}; 0: no search)",
                          kDefaultSearchPlans));
  flags.value("--timeline", "FILE", flag::text(&options.timeline),
              "write a picture of the memory over the step as an HTML page");
  flags.value("--write", "FILE", flag::text(&options.picture),
              "write a picture: of a pipeline's schedule with the planned times, .svg, or .html with "
              "numbers; of tokens/s over several numbers of ranks, .svg");
  flags.toggle("--verbose", &options.verbose,
               "also print kernels, the decisions of passes, and planning time");
  flags.toggle("--json", &options.json, "print JSON");
  if (!flags.read(args)) return std::nullopt;
  if (options.rank.value_or(0) >= options.worlds.front())
    flags.fail({flags.as_given("--rank") + " must be below " + flags.as_given("--world")});
  for (const std::string& file : files) {
    ir::DeviceModel device = read_device_file(file, flags.as_given("--device-file"));
    if (has_name(options.devices, device.name))
      flags.fail(
          {fmt::format("--device-file \"{}\" has a GPU with the name of another, {}; set name in the file",
                       file, device.name)});
    options.devices.push_back(std::move(device));
  }
  if (options.devices.empty()) options.devices.push_back(*ir::find_device_model(kDefaultDevice));
  for (ir::DeviceModel& device : options.devices) apply(machine, device, flags);
  const bool is_gpu = options.devices.front().is_gpu;
  for (const ir::DeviceModel& device : options.devices)
    if (device.is_gpu != is_gpu)
      flags.fail({flags.as_given("--device") + " must be GPUs, or cpu alone: their graphs differ"});
  options.config = load_config(keys, is_gpu ? TargetDevice::cuda : TargetDevice::cpu);
  check_outputs(options, flags);
  for (const std::int64_t world : options.worlds) resolve_layout(options.config, world);
  return options;
}

}  // namespace rondo
