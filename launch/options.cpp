// Flags of `rondo launch`: the rules of each value, and of flags that go together.
#include "launch/options.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "support/error.h"
#include "support/flags/flags.h"
#include "support/machine/core_room.h"
#include "support/machine/gpus.h"
#include "support/text/numbers.h"

namespace rondo::launch {
namespace {

constexpr int kMaxRanksPerNode = 1024;
constexpr int kMaxNodes = 10000;
constexpr int kDefaultPort = 29500;            // torchrun's, for static rendezvous
constexpr int kDefaultRendezvousPort = 29400;  // torchrun's, for c10d
constexpr double kMaxTimeout_s = 30.0 * 24 * 3600;

constexpr const char* kAllSignals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2";
struct SignalName {
  const char* name;
  int number;
};
constexpr std::array kSignals = {SignalName{"SIGTERM", SIGTERM}, SignalName{"SIGINT", SIGINT},
                                 SignalName{"SIGHUP", SIGHUP},   SignalName{"SIGQUIT", SIGQUIT},
                                 SignalName{"SIGUSR1", SIGUSR1}, SignalName{"SIGUSR2", SIGUSR2}};

// Each function below reads one value. It returns the broken rule, or "".
using Rule = std::string;

Rule read_ranks(const std::string& value, int& ranks) {
  if (value == "cpu" || value == "auto" || value == "gpu") {
    const int gpus = value == "cpu" ? 0 : gpus_of_driver();
    if (value == "gpu" && gpus == 0)
      throw Error(ExitCode::environment,
                  "--nproc-per-node \"gpu\", but this machine has no visible GPU (the driver has none, or "
                  "CUDA_VISIBLE_DEVICES names none; `nvidia-smi -L` lists them); give a number, or cpu");
    ranks = gpus > 0 ? gpus : core_room().cores;
    return "";
  }
  const auto number = number_in(value, 1, kMaxRanksPerNode);
  if (!number) return fmt::format("must be 1 to {}, auto, cpu or gpu", kMaxRanksPerNode);
  ranks = *number;
  return "";
}

Rule read_nodes(const std::string& value, int& nodes) {
  const std::vector<std::string> bounds = split(value, ':');
  const auto least = number_in(bounds.front(), 1, kMaxNodes), most = number_in(bounds.back(), 1, kMaxNodes);
  if (!least || !most || bounds.size() > 2)
    return fmt::format("must be a whole number from 1 to {}", kMaxNodes);
  if (*least != *most)
    return fmt::format("requests an elastic job, which is not supported: give one number, e.g. {}", *most);
  nodes = *most;
  return "";
}

Rule read_backend(const std::string& value, bool& uses_static) {
  uses_static = value == "static";
  return uses_static || value == "c10d" ? "" : "must be static or c10d";
}

Rule read_address(const std::string& value, std::string& address) {
  const bool plain = !value.empty() && value.size() <= 255 &&
                     std::all_of(value.begin(), value.end(), [](unsigned char c) { return c > ' '; });
  address = value;
  return plain ? "" : "must be 1 to 255 characters without spaces";
}

Rule read_endpoint(const std::string& value, Endpoint& endpoint) {
  endpoint = {};
  if (const Rule broken = read_address(value, endpoint.host); !broken.empty()) return broken;
  const std::size_t colon = value.rfind(':');
  const bool bare_ipv6 = value.find(':') != colon && value[0] != '[';
  if (colon == std::string::npos || bare_ipv6 || value.back() == ']') return "";
  const auto port = number_in(std::string_view(value).substr(colon + 1), 0, 65535);
  if (!port || colon == 0) return "must be HOST or HOST:PORT with a port from 0 to 65535";
  endpoint = {value.substr(0, colon), *port};
  return "";
}

// Reads a name that becomes part of a path or of a line's prefix.
Rule read_name(const std::string& value, std::string& name) {
  const bool plain = !value.empty() && value.size() <= 128 && value[0] != '.' &&
                     std::all_of(value.begin(), value.end(), [](unsigned char c) {
                       return std::isalnum(c) || c == '.' || c == '_' || c == '-' || c == ':';
                     });
  name = value;
  return plain ? "" : "must be 1 to 128 letters, digits or . _ - : and not begin with a dot";
}

Rule read_rendezvous_settings(const std::string& value, LaunchOptions& options) {
  if (value.empty()) return "";
  std::map<std::string, double> seen;
  for (const std::string& pair : split(value, ',')) {
    const std::size_t equals = pair.find('=');
    const std::string key = pair.substr(0, equals);
    if (equals == std::string::npos || (key != "timeout" && key != "join_timeout" && key != "read_timeout"))
      return fmt::format("has \"{}\"; allowed are timeout=S, join_timeout=S and read_timeout=S", pair);
    const double least = key == "read_timeout" ? 2 : 0.1;  // heartbeats come every second
    const std::string text = pair.substr(equals + 1);
    const Rule broken = flag::number(&seen[key], least, kMaxTimeout_s, "seconds")(text);
    if (!broken.empty()) return fmt::format("has {} \"{}\", which {}", key, text, broken);
  }
  if (seen.count("timeout")) options.join_timeout_s = seen["timeout"];
  if (seen.count("join_timeout")) options.join_timeout_s = seen["join_timeout"];
  if (seen.count("read_timeout")) options.silence_timeout_s = seen["read_timeout"];
  return "";
}

Rule read_mask(const std::string& value, StreamMask& mask) {
  mask = {};
  if (const auto all = number_in(value, 0, 3)) {
    mask.for_all = *all;
    return "";
  }
  for (const std::string& part : split(value, ',')) {
    const std::vector<std::string> pair = split(part, ':');
    const auto rank = number_in(pair.front(), 0, kMaxRanksPerNode - 1);
    const auto streams = number_in(pair.back(), 0, 3);
    if (!rank || !streams || pair.size() != 2)
      return "must be 0, 1 (stdout), 2 (stderr) or 3 (both), or a list by local rank such as 0:1,1:2";
    mask.by_local_rank[*rank] = *streams;
  }
  return "";
}

Rule read_local_ranks(const std::string& value, std::set<int>& ranks) {
  ranks.clear();
  if (value.empty()) return "";
  for (const std::string& part : split(value, ',')) {
    const auto rank = number_in(part, 0, kMaxRanksPerNode - 1);
    if (!rank) return "must be local ranks such as 0,1";
    ranks.insert(*rank);
  }
  return "";
}

Rule read_signals(const std::string& value, LaunchOptions& options) {
  options.signals.clear();
  options.signal_names = value;
  for (const std::string& part : split(value, ',')) {
    const auto known = std::find_if(kSignals.begin(), kSignals.end(),
                                    [&](const SignalName& signal) { return part == signal.name; });
    if (known == kSignals.end()) return fmt::format("must list some of {}", kAllSignals);
    options.signals.push_back(known->number);
  }
  return "";
}

template <class Target>
ReadValue with(Rule (*read)(const std::string&, Target&), Target* target) {
  return [=](const std::string& value) { return read(value, *target); };
}

class Parser {
 public:
  Parser();

  bool serves(const std::string& word) const { return flags_.serves(word); }

  LaunchOptions parse(const std::vector<std::string>& words) {
    options_.wants_help = !flags_.read(words);
    if (options_.wants_help) return options_;
    if (standalone_) make_standalone();
    if (options_.nodes > 1) set_rendezvous();
    find_secret();
    if (grace_s_) options_.shutdown_grace_s = options_.signal_grace_s = *grace_s_;
    check_program();
    check_ranks();
    if (!problems_.empty()) flags_.fail(problems_);
    return options_;
  }

 private:
  template <class... Parts>
  void add_problem(fmt::format_string<Parts...> text, Parts&&... parts) {
    problems_.push_back(fmt::format(text, std::forward<Parts>(parts)...));
  }

  // Ignores the other rendezvous flags, as torchrun does. A job of several nodes is an error.
  void make_standalone() {
    if (options_.nodes > 1)
      add_problem("--standalone is for one node, but {} is given", flags_.as_given("--nnodes"));
    options_.nodes = 1;
    options_.node_rank.reset();
    options_.rendezvous = {};
  }

  void set_rendezvous() {
    if (options_.uses_static_rendezvous && options_.rendezvous.host.empty()) {
      if (options_.master_addr.empty())
        add_problem(
            "several nodes need a rendezvous endpoint: give --master-addr (the host of node 0), or "
            "--rdzv-endpoint HOST:PORT");
      if (!options_.master_port.value_or(0)) options_.master_port = kDefaultPort;
      options_.rendezvous = {options_.master_addr, *options_.master_port};
    } else if (options_.rendezvous.host.empty()) {
      add_problem("several nodes need a rendezvous endpoint: give --rdzv-endpoint HOST:PORT");
    }
    if (options_.rendezvous.port == 0) options_.rendezvous.port = kDefaultRendezvousPort;
  }

  void find_secret() {
    const char* variable = std::getenv("RONDO_RDZV_SECRET");
    std::string secret = variable == nullptr ? "" : variable;
    if (!secret_file_.empty()) {
      std::ifstream file(secret_file_);
      if (!std::getline(file, secret) || secret.empty())
        add_problem("{} cannot be read, or its first line is empty", flags_.as_given("--rdzv-secret-file"));
    }
    options_.has_own_secret = !secret.empty();
    options_.secret = secret + "\n" + options_.run_id;
  }

  void check_program() {
    const std::vector<std::string>& program = options_.program;
    if (program.empty())
      return add_problem(
          "no program: write `rondo launch FLAGS -- train ...`, or `--no-python PROGRAM ARGS`");
    if (options_.runs_any_program) return;
    if (std::filesystem::path(program[0]).extension() == ".py")
      add_problem(
          "{} is a Python script, and Rondo runs no Python: write `-- train ...`, or "
          "`--no-python python3 {}`",
          program[0], program[0]);
    if (program[0] != "train") return;
    for (const std::string& word : program)
      if (word != "--help" && word != "-h" && flags_.serves(word))
        add_problem("{} is a flag of the launcher: write it before `train`", word);
  }

  void check_ranks() {
    if (options_.node_rank && *options_.node_rank >= options_.nodes)
      add_problem("{} must be below the number of nodes, {}", flags_.as_given("--node-rank"), options_.nodes);
    const auto check = [&](const char* flag, int local_rank) {
      if (local_rank >= options_.ranks_per_node)
        add_problem("{} has {}, but local ranks here are 0 to {}", flags_.as_given(flag), local_rank,
                    options_.ranks_per_node - 1);
    };
    for (const int rank : options_.local_ranks_filter) check("--local-ranks-filter", rank);
    for (const auto& [rank, streams] : options_.redirects.by_local_rank) check("--redirects", rank);
    for (const auto& [rank, streams] : options_.tee.by_local_rank) check("--tee", rank);
  }

  LaunchOptions options_;
  bool standalone_ = false;
  std::string secret_file_;
  std::optional<double> grace_s_;
  Flags flags_{"launch",
               "Runs `rondo train ...` as the ranks of a job, or with --no-python any program. The flags are "
               "torchrun's;\n"
               "each may also come from the environment as PET_<NAME>, e.g. PET_NNODES=2.",
               "The exit code is the code of the first rank that failed, or 128 + n if signal n killed it."};
  std::vector<std::string> problems_;
};

Parser::Parser() {
  LaunchOptions& o = options_;
  read_signals(kAllSignals, o);
  flags_.environment("PET_");
  flags_.program(&o.program);
  const auto add = [&](const char* names, const char* shown, ReadValue read, const char* meaning) {
    flags_.value(names, shown, std::move(read), meaning);
  };
  add("--nproc-per-node", "N|auto|cpu|gpu", with(read_ranks, &o.ranks_per_node),
      "number of ranks on this node (default 1)");
  add("--nnodes", "N", with(read_nodes, &o.nodes),
      "number of nodes (default 1); MIN:MAX only if both are equal");
  add("--node-rank", "K", flag::whole(&o.node_rank, 0, kMaxNodes - 1),
      "rank of this node (default: nodes are numbered as they join)");
  add("--master-addr", "HOST", with(read_address, &o.master_addr),
      "address of rank 0's store (default 127.0.0.1)");
  add("--master-port", "PORT", flag::whole(&o.master_port, 0, 65535),
      "port of rank 0's store (default: a free one; several nodes: 29500)");
  add("--rdzv-backend", "static|c10d", with(read_backend, &o.uses_static_rendezvous),
      "both use the launcher's own protocol");
  add("--rdzv-endpoint", "HOST[:PORT]", with(read_endpoint, &o.rendezvous),
      "rendezvous endpoint of the nodes, on the host of node 0");
  add("--rdzv-id", "ID", with(read_name, &o.run_id), "name of the job; nodes with another id are refused");
  add("--rdzv-secret-file", "FILE", flag::text(&secret_file_),
      "file whose first line is the secret for joining (default: RONDO_RDZV_SECRET)");
  add("--rdzv-conf", "K=V,...", with(read_rendezvous_settings, &o),
      "timeout, join_timeout (600), read_timeout (60), seconds");
  flags_.toggle("--standalone", &standalone_, "run one node on a free port; overrides the flags above");
  add("--max-restarts", "N", flag::whole(&o.max_restarts, 0, 1'000'000),
      "restart all ranks up to N times after a failure (default 0)");
  add("--monitor-interval", "SECONDS", flag::number(&o.monitor_interval_s, 0.001, kMaxTimeout_s, "seconds"),
      "longest sleep of the launcher (default 0.1)");
  add("--shutdown-grace", "SECONDS", flag::number(&grace_s_, 0, kMaxTimeout_s, "seconds"),
      "time until SIGKILL (default 10 after a failure; 600 after a signal, for saving)");
  add("--role", "NAME", with(read_name, &o.role),
      "role of the ranks, printed before their lines (default \"default\")");
  add("--log-dir", "DIR", flag::text(&o.log_dir), "DIR/ID/attempt_N/LOCAL_RANK/{stdout,stderr}.log");
  add("-r,--redirects", "MASK", with(read_mask, &o.redirects),
      "streams to files only: 3, or 0:1,1:2 by local rank");
  add("-t,--tee", "MASK", with(read_mask, &o.tee), "streams to files and to the console");
  add("--local-ranks-filter", "0,1", with(read_local_ranks, &o.local_ranks_filter),
      "local ranks whose output reaches the console");
  add("--local-addr", "ADDR", with(read_address, &o.local_addr),
      "address of this node to connect from and to listen on");
  add("--signals-to-handle", "SIG,...", with(read_signals, &o), "signals that are forwarded to the ranks");
  flags_.toggle("--no-python", &o.runs_any_program, "run any program instead of a subcommand of rondo");
  for (const char* names : {"-m,--module", "--run-path"})
    flags_.refuse(names, "Rondo runs no Python; use --no-python PROGRAM ARGS");
  flags_.refuse("--start-method", "ranks are always started by fork and exec");
  flags_.refuse("--event-log-handler", "there are no event handlers");
  flags_.refuse("--logs-specs", "there are no plug-ins; use --log-dir, --redirects and --tee");
  flags_.refuse("--numa-binding", "bind with numactl in a --no-python line");
  flags_.refuse("--virtual-local-rank", "ranks pick their device by LOCAL_RANK");
  for (const char* name : {"--duplicate-stdout-filters", "--duplicate-stderr-filters"})
    flags_.refuse(name, "use --tee and grep the files");
}

}  // namespace

LaunchOptions parse_options(const std::vector<std::string>& words) { return Parser().parse(words); }

bool serves_flag(const std::string& word) {
  static const Parser parser;
  return parser.serves(word);
}

}  // namespace rondo::launch
