#include "parallel/launch/options.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "parallel/launch/flags.h"
#include "parallel/launch/gpus.h"
#include "support/error.h"
#include "support/text/nearest.h"
#include "support/text/numbers.h"

namespace rondo::launch {
namespace {

constexpr int kMaxRanksPerNode = 1024;
constexpr int kMaxNodes = 10000;
constexpr int kDefaultPort = 29500;            // torchrun's, for static rendezvous
constexpr int kDefaultRendezvousPort = 29400;  // torchrun's, for c10d
constexpr double kLongest_s = 30.0 * 24 * 3600;

// Signal names in the order of their default.
struct SignalName {
  const char* name;
  int number;
};
constexpr std::array kSignals = {SignalName{"SIGTERM", SIGTERM}, SignalName{"SIGINT", SIGINT},
                                 SignalName{"SIGHUP", SIGHUP},   SignalName{"SIGQUIT", SIGQUIT},
                                 SignalName{"SIGUSR1", SIGUSR1}, SignalName{"SIGUSR2", SIGUSR2}};

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0;;) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    if (end == text.size()) return parts;
    at = end + 1;
  }
}

class Parser {
 public:
  LaunchOptions parse(const std::vector<std::string>& words) {
    read_words(words);
    if (options_.wants_help) return options_;
    read_environment();
    for (const auto& [name, given] : given_) apply(name, given);
    check_together();
    if (!problems_.empty()) {
      std::string text;
      for (std::size_t i = 0; i < problems_.size(); ++i) text += (i == 0 ? "" : "\n  ") + problems_[i];
      throw Error(ExitCode::usage, text + "\n  `rondo launch --help` lists the flags");
    }
    return options_;
  }

 private:
  struct Given {
    std::string value;
    std::string as;  // how the user wrote it, for messages
  };

  void read_words(const std::vector<std::string>& words) {
    std::size_t at = 0;
    for (; at < words.size() && words[at].size() > 1 && words[at][0] == '-'; ++at) {
      if (words[at] == "--") {
        ++at;
        break;
      }
      at += read_flag(words, at);
    }
    options_.program.assign(words.begin() + static_cast<std::ptrdiff_t>(std::min(at, words.size())),
                            words.end());
  }

  // Returns how many words beyond words[at] it took.
  std::size_t read_flag(const std::vector<std::string>& words, std::size_t at) {
    const std::string& word = words[at];
    const std::size_t equals = word.find('=');
    std::string spelt = word.substr(0, equals);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = word.substr(equals + 1);
    const Flag* flag = find_flag(spelt);
    if (flag == nullptr && spelt.size() > 2 && spelt[1] != '-') {  // -r3
      flag = find_flag(spelt.substr(0, 2));
      if (flag != nullptr) {
        value = word.substr(2);
        spelt.resize(2);
      }
    }
    if (flag == nullptr) {
      problems_.push_back(fmt::format("unknown flag {}{}", spelt, did_you_mean(spelt, served_flags())));
      return 0;
    }
    if (flag->shape == Shape::refused) {
      problems_.push_back(fmt::format("{} is not supported: {}", spelt, flag->value));
      return 0;
    }
    if (flag->shape == Shape::toggle) {
      if (value) problems_.push_back(fmt::format("{} takes no value, but got \"{}\"", spelt, *value));
      given_[flag->name] = {"1", spelt};
      options_.wants_help |= std::string_view(flag->name) == "help";
      return 0;
    }
    const bool next = !value && at + 1 < words.size() && words[at + 1] != "--";
    if (!value && !next) {
      problems_.push_back(fmt::format("{} needs a value: {} {}", spelt, spelt, flag->value));
      return 0;
    }
    given_[flag->name] = {value ? *value : words[at + 1], spelt};
    return next ? 1 : 0;
  }

  void read_environment() {
    for (const Flag& flag : all_flags()) {
      const std::string name = environment_name(flag);
      const char* value = std::getenv(name.c_str());
      if (value == nullptr || std::string_view(flag.name) == "help" || given_.count(flag.name)) continue;
      const std::string text = value;
      if (flag.shape == Shape::value) {
        given_[flag.name] = {text, name};
      } else if (text == "1") {
        if (flag.shape == Shape::refused)
          problems_.push_back(fmt::format("{} is not supported: {}", name, flag.value));
        else
          given_[flag.name] = {text, name};
      } else if (flag.shape == Shape::toggle && text != "0") {
        problems_.push_back(fmt::format("{}=\"{}\" must be 0 or 1", name, text));
      }
    }
  }

  void complain(const Given& given, std::string_view rule) {
    problems_.push_back(fmt::format("{} = \"{}\" {}", given.as, given.value, rule));
  }

  int whole(const Given& given, int lowest, int highest, int otherwise) {
    const auto value = number_in(given.value, lowest, highest);
    if (!value) complain(given, fmt::format("must be a whole number from {} to {}", lowest, highest));
    return value.value_or(otherwise);
  }

  double seconds(const Given& given, double lowest, double otherwise) {
    const auto value = number_in(given.value, lowest, kLongest_s);
    if (!value) complain(given, fmt::format("must be seconds from {} to {}", lowest, kLongest_s));
    return value.value_or(otherwise);
  }

  std::string text(const Given& given) {
    const bool plain =
        !given.value.empty() && given.value.size() <= 255 &&
        std::all_of(given.value.begin(), given.value.end(), [](unsigned char c) { return c > ' '; });
    if (!plain) complain(given, "must be 1 to 255 characters without spaces");
    return given.value;
  }

  void apply(std::string_view name, const Given& given) {
    if (name == "nproc-per-node") options_.ranks_per_node = ranks(given);
    if (name == "nnodes") options_.nodes = nodes(given);
    if (name == "node-rank") options_.node_rank = whole(given, 0, kMaxNodes - 1, 0);
    if (name == "master-addr") options_.master_addr = text(given);
    if (name == "master-port") options_.master_port = whole(given, 0, 65535, 0);
    if (name == "rdzv-backend") backend(given);
    if (name == "rdzv-endpoint") options_.rendezvous = endpoint(given);
    if (name == "rdzv-id") options_.run_id = file_name(given);
    if (name == "rdzv-conf") rendezvous_settings(given);
    if (name == "max-restarts") options_.max_restarts = whole(given, 0, 1'000'000, 0);
    if (name == "monitor-interval") options_.monitor_interval_s = seconds(given, 0.001, 0.1);
    if (name == "shutdown-grace") options_.shutdown_grace_s = seconds(given, 0, 10);
    if (name == "role") options_.role = file_name(given);
    if (name == "log-dir") log_dir(given);
    if (name == "redirects") options_.redirects = mask(given);
    if (name == "tee") options_.tee = mask(given);
    if (name == "local-ranks-filter") filter(given);
    if (name == "local-addr") options_.local_addr = text(given);
    if (name == "signals-to-handle") signals(given);
    if (name == "no-python") options_.runs_any_program = true;
  }

  int ranks(const Given& given) {
    if (given.value == "cpu") return available_cores();
    if (given.value == "auto") return visible_gpus() > 0 ? visible_gpus() : available_cores();
    if (given.value == "gpu") {
      if (visible_gpus() > 0) return visible_gpus();
      throw Error(
          ExitCode::environment,
          fmt::format("{} = \"gpu\", but this machine shows no GPU (no /dev/nvidia0, or CUDA_VISIBLE_DEVICES "
                      "is empty); give a number, or cpu",
                      given.as));
    }
    const auto value = number_in(given.value, 1, kMaxRanksPerNode);
    if (!value) complain(given, fmt::format("must be 1 to {}, auto, cpu or gpu", kMaxRanksPerNode));
    return value.value_or(1);
  }

  int nodes(const Given& given) {
    const std::size_t colon = given.value.find(':');
    if (colon == std::string::npos) return whole(given, 1, kMaxNodes, 1);
    const auto least = number_in(std::string_view(given.value).substr(0, colon), 1, kMaxNodes);
    const auto most = number_in(std::string_view(given.value).substr(colon + 1), 1, kMaxNodes);
    if (!least || !most)
      complain(given, fmt::format("must be a whole number from 1 to {}", kMaxNodes));
    else if (*least != *most)
      complain(given, fmt::format("asks for an elastic job, which is not supported: give one number, e.g. {}",
                                  *most));
    return least && least == most ? *most : 1;
  }

  void backend(const Given& given) {
    options_.uses_static_rendezvous = given.value == "static";
    if (given.value != "static" && given.value != "c10d") complain(given, "must be static or c10d");
  }

  Endpoint endpoint(const Given& given) {
    Endpoint result{text(given), 0};
    const std::size_t colon = given.value.rfind(':');
    const bool bare_ipv6 = given.value.find(':') != colon && given.value[0] != '[';
    if (colon != std::string::npos && !bare_ipv6 && given.value.back() != ']') {
      const auto port = number_in(std::string_view(given.value).substr(colon + 1), 0, 65535);
      if (!port || colon == 0) complain(given, "must be HOST or HOST:PORT with a port from 0 to 65535");
      result = {given.value.substr(0, colon), port.value_or(0)};
    }
    return result;
  }

  // Names that become part of a path or of a line's prefix.
  std::string file_name(const Given& given) {
    const bool plain = !given.value.empty() && given.value.size() <= 128 && given.value[0] != '.' &&
                       std::all_of(given.value.begin(), given.value.end(), [](unsigned char c) {
                         return std::isalnum(c) || c == '.' || c == '_' || c == '-' || c == ':';
                       });
    if (!plain) complain(given, "must be 1 to 128 letters, digits or . _ - : and not begin with a dot");
    return given.value;
  }

  void rendezvous_settings(const Given& given) {
    if (given.value.empty()) return;
    std::map<std::string, double> seen;
    for (const std::string& pair : split(given.value, ',')) {
      const std::size_t equals = pair.find('=');
      const std::string key = pair.substr(0, equals);
      if (equals == std::string::npos ||
          (key != "timeout" && key != "join_timeout" && key != "read_timeout")) {
        complain(given,
                 fmt::format("has \"{}\"; known are timeout=S, join_timeout=S and read_timeout=S", pair));
        continue;
      }
      const double lowest = key == "read_timeout" ? 2 : 0.1;  // heartbeats come every second
      seen[key] = seconds({pair.substr(equals + 1), given.as + " " + key}, lowest, lowest);
    }
    if (seen.count("timeout")) options_.join_timeout_s = seen["timeout"];
    if (seen.count("join_timeout")) options_.join_timeout_s = seen["join_timeout"];
    if (seen.count("read_timeout")) options_.silence_timeout_s = seen["read_timeout"];
  }

  void log_dir(const Given& given) {
    if (given.value.empty()) complain(given, "must name a folder");
    options_.log_dir = given.value;
  }

  StreamMask mask(const Given& given) {
    StreamMask result;
    if (const auto all = number_in(given.value, 0, 3)) {
      result.for_all = *all;
      return result;
    }
    for (const std::string& part : split(given.value, ',')) {
      const std::size_t colon = std::min(part.find(':'), part.size());
      const auto rank = number_in(std::string_view(part).substr(0, colon), 0, kMaxRanksPerNode - 1);
      const auto streams = number_in(std::string_view(part).substr(std::min(colon + 1, part.size())), 0, 3);
      if (!rank || !streams) {
        complain(given,
                 "must be 0, 1 (stdout), 2 (stderr) or 3 (both), or a list by local rank such as 0:1,1:2");
        break;
      }
      result.by_local_rank[*rank] = *streams;
    }
    return result;
  }

  void filter(const Given& given) {
    if (given.value.empty()) return;
    for (const std::string& part : split(given.value, ',')) {
      const auto rank = number_in(part, 0, kMaxRanksPerNode - 1);
      if (!rank) return complain(given, "must be local ranks such as 0,1");
      options_.local_ranks_filter.insert(*rank);
    }
  }

  void signals(const Given& given) {
    options_.signals.clear();
    options_.signal_names = given.value;
    for (const std::string& part : split(given.value, ',')) {
      const auto known = std::find_if(kSignals.begin(), kSignals.end(),
                                      [&](const SignalName& signal) { return part == signal.name; });
      if (known == kSignals.end())
        return complain(given, "must list some of SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2");
      options_.signals.push_back(known->number);
    }
  }

  void check_together() {
    if (options_.signal_names.empty() && !given_.count("signals-to-handle"))
      signals({"SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2", "signals"});
    if (options_.program.empty())
      problems_.push_back(
          "no program: write `rondo launch FLAGS -- train ...`, or `--no-python PROGRAM ARGS`");
    else if (!options_.runs_any_program && std::filesystem::path(options_.program[0]).extension() == ".py")
      problems_.push_back(
          fmt::format("{} is a Python script, and Rondo runs no Python: write `-- train ...`, or "
                      "`--no-python python3 {}`",
                      options_.program[0], options_.program[0]));
    if (given_.count("standalone")) standalone();
    if (options_.nodes > 1) meeting_place();
    if (options_.node_rank && *options_.node_rank >= options_.nodes)
      complain(given_["node-rank"], fmt::format("must be below the number of nodes, {}", options_.nodes));
    for (const int rank : options_.local_ranks_filter)
      if (rank >= options_.ranks_per_node)
        complain(given_["local-ranks-filter"],
                 fmt::format("has {}, but local ranks here are 0 to {}", rank, options_.ranks_per_node - 1));
    for (const char* name : {"redirects", "tee"})
      for (const auto& [rank, streams] : (*name == 't' ? options_.tee : options_.redirects).by_local_rank)
        if (rank >= options_.ranks_per_node)
          complain(given_[name], fmt::format("has {}, but local ranks here are 0 to {}", rank,
                                             options_.ranks_per_node - 1));
  }

  // As torchrun: the other flags of the meeting are ignored, but a job of several nodes cannot be meant.
  void standalone() {
    if (options_.nodes > 1)
      problems_.push_back(fmt::format("{} is for one node, but {} = \"{}\"", given_["standalone"].as,
                                      given_["nnodes"].as, given_["nnodes"].value));
    options_.nodes = 1;
    options_.node_rank.reset();
    options_.rendezvous = {};
  }

  void meeting_place() {
    if (options_.uses_static_rendezvous && options_.rendezvous.host.empty()) {
      if (options_.master_addr.empty())
        problems_.push_back(
            "several nodes need a place to meet: give --master-addr (the host of node 0), or "
            "--rdzv-endpoint HOST:PORT");
      if (!options_.master_port.value_or(0)) options_.master_port = kDefaultPort;
      options_.rendezvous = {options_.master_addr, *options_.master_port};
    } else if (options_.rendezvous.host.empty()) {
      problems_.push_back("several nodes need a place to meet: give --rdzv-endpoint HOST:PORT");
    }
    if (options_.rendezvous.port == 0) options_.rendezvous.port = kDefaultRendezvousPort;
  }

  LaunchOptions options_;
  std::map<std::string, Given, std::less<>> given_;
  std::vector<std::string> problems_;
};

}  // namespace

LaunchOptions parse_options(const std::vector<std::string>& words) { return Parser().parse(words); }

int available_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

}  // namespace rondo::launch
