// Uses the first launcher whose variables are set, in the order of rank_environment(). Each
// launcher has a reader over a common collector, which records missing, invalid and set variables.
// All problems are reported in one message. Relations between numbers are checked only if every
// number is valid. A batch script of Slurm has task variables, too; only the number of the step
// tells it from a step. Variables of two launchers must agree, since one of them may be left over
// from a shell or a batch script. A launcher of a node or of MPI may itself be a task of a step.
#include "launch/rendezvous/environment.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

#include "launch/rendezvous/hostlist.h"
#include "support/error.h"
#include "support/text/numbers.h"

namespace rondo {
namespace {

constexpr int kMaxWorldSize = 1 << 24;
constexpr int kDefaultMasterPort = 29500;
// Below the ports that Linux gives to outgoing connections (ip_local_port_range, from 32768 on).
constexpr std::int64_t kFirstSlurmPort = 10000, kSlurmPorts = 20000;
constexpr std::int64_t kPortsBetweenSteps = 7919;  // a prime: neighboring jobs get other ports
// Batch, interactive and extern steps have numbers from here on.
constexpr std::int64_t kFirstSpecialStep = 0xfffffff0;

const char* variable(const char* name) { return std::getenv(name); }

// Reads the variables of one launcher and collects all problems, so that one message reports them.
class Variables {
 public:
  explicit Variables(std::string starter) : starter_(std::move(starter)) {}

  std::string text(const char* name) {
    const char* value = variable(name);
    if (value == nullptr || *value == '\0') {
      missing_.emplace_back(name);
      return "";
    }
    seen_.push_back(fmt::format("{}={}", name, std::string_view(value).substr(0, 200)));
    return value;
  }

  std::optional<std::int64_t> number(const char* name, std::int64_t lowest, std::int64_t highest) {
    const std::string value = text(name);
    if (value.empty()) return std::nullopt;
    const auto number = number_in(value, lowest, highest);
    if (!number)
      problems_.push_back(fmt::format("{} must be a whole number from {} to {}", name, lowest, highest));
    return number;
  }

  int whole(const char* name, int lowest, int highest) {
    return static_cast<int>(number(name, lowest, highest).value_or(lowest));
  }
  int optional_whole(const char* name, int lowest, int highest, int fallback) {
    return variable(name) == nullptr ? fallback : whole(name, lowest, highest);
  }

  void require(bool holds, std::string rule) {
    if (!holds) problems_.push_back(std::move(rule));
  }
  bool sound() const { return missing_.empty() && problems_.empty(); }

  // Rules for the ranks of any launcher.
  void require_order(const RankEnvironment& ranks, const char* rank, const char* size, const char* local_rank,
                     const char* local_size) {
    if (!sound()) return;
    require(ranks.rank < ranks.world_size, fmt::format("{} must be below {}", rank, size));
    require(ranks.local_rank < ranks.local_world_size,
            fmt::format("{} must be below {}", local_rank, local_size));
    require(ranks.local_world_size <= ranks.world_size,
            fmt::format("{} must not exceed {}", local_size, size));
    require(ranks.local_rank <= ranks.rank, fmt::format("{} must not exceed {}", local_rank, rank));
  }

  void finish() const {
    if (sound()) return;
    std::string message = fmt::format("the environment of {} is invalid: ", starter_);
    for (const std::string& problem : problems_) message += problem + "; ";
    if (!missing_.empty()) message += fmt::format("missing {}; ", joined(missing_));
    throw Error(ExitCode::environment, fmt::format("{}set are {}. Start ranks with `rondo launch`, srun, "
                                                   "mpirun or torchrun, or unset these variables to "
                                                   "run alone",
                                                   message, seen_.empty() ? "none" : joined(seen_)));
  }

 private:
  static std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
    return text;
  }

  std::string starter_;
  std::vector<std::string> missing_, problems_, seen_;
};

// Returns the socket that the launcher bound for rank 0, or -1.
int inherited_listener(Variables& variables, int rank) {
  if (rank != 0 || variable("RONDO_MASTER_LISTEN_FD") == nullptr) return -1;
  const int fd = variables.whole("RONDO_MASTER_LISTEN_FD", 3, INT_MAX);
  if (variables.sound())
    variables.require(fcntl(fd, F_GETFD) != -1, "RONDO_MASTER_LISTEN_FD must be an open file descriptor");
  return fd;
}

// The variables with a rank and the number of ranks.
struct Claim {
  const char* rank;
  const char* size;
  const char* others = "";  // further variables to unset with them
};
constexpr Claim kTorchrun{"RANK", "WORLD_SIZE", ", LOCAL_RANK and LOCAL_WORLD_SIZE"};
constexpr Claim kOpenMpi{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"};
constexpr Claim kHydra{"PMI_RANK", "PMI_SIZE", " and MPI_LOCALRANKID"};
constexpr Claim kSlurm{"SLURM_PROCID", "SLURM_NTASKS", " and SLURM_STEP_ID"};

RankEnvironment from_torchrun() {
  Variables variables("torchrun");
  RankEnvironment ranks;
  ranks.source = "torchrun";
  ranks.rank = variables.whole("RANK", 0, kMaxWorldSize);
  ranks.world_size = variables.whole("WORLD_SIZE", 1, kMaxWorldSize);
  ranks.local_rank = variables.whole("LOCAL_RANK", 0, kMaxWorldSize);
  ranks.local_world_size = variables.whole("LOCAL_WORLD_SIZE", 1, kMaxWorldSize);
  ranks.master_addr = variables.text("MASTER_ADDR");
  ranks.master_port = variables.whole("MASTER_PORT", 1, 65535);
  ranks.group_rank = variables.optional_whole("GROUP_RANK", 0, kMaxWorldSize, 0);
  ranks.restart_count = variables.optional_whole("TORCHELASTIC_RESTART_COUNT", 0, INT_MAX, 0);
  if (variable("TORCHELASTIC_RUN_ID") != nullptr) ranks.run_id = variables.text("TORCHELASTIC_RUN_ID");
  if (variable("RONDO_STORE_TOKEN") != nullptr) ranks.store_token = variables.text("RONDO_STORE_TOKEN");
  variables.require_order(ranks, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  ranks.master_listen_fd = inherited_listener(variables, ranks.rank);
  variables.finish();
  return ranks;
}

// mpirun sets no rendezvous address. One node has a default; several nodes must set it.
void read_master(Variables& variables, RankEnvironment& ranks) {
  const bool one_node = ranks.local_world_size == ranks.world_size;
  if (!one_node || variable("MASTER_ADDR") != nullptr) ranks.master_addr = variables.text("MASTER_ADDR");
  ranks.master_port = one_node ? variables.optional_whole("MASTER_PORT", 1, 65535, kDefaultMasterPort)
                               : variables.whole("MASTER_PORT", 1, 65535);
  // There are no node numbers here. Ranks are placed node by node unless the user chose another
  // mapping.
  ranks.group_rank = ranks.rank / ranks.local_world_size;
}

RankEnvironment from_mpi(const char* starter, const char* source, const Claim& claim, const char* local_rank,
                         const char* local_size) {
  Variables variables(starter);
  RankEnvironment ranks;
  ranks.source = source;
  ranks.rank = variables.whole(claim.rank, 0, kMaxWorldSize);
  ranks.world_size = variables.whole(claim.size, 1, kMaxWorldSize);
  ranks.local_rank = variables.whole(local_rank, 0, kMaxWorldSize);
  ranks.local_world_size = variables.whole(local_size, 1, kMaxWorldSize);
  variables.require_order(ranks, claim.rank, claim.size, local_rank, local_size);
  if (variables.sound()) read_master(variables, ranks);
  variables.finish();
  return ranks;
}

// Returns the number of the step that this process is a task of; nullopt outside of a step.
std::optional<std::int64_t> slurm_step() {
  const char* step = variable("SLURM_STEP_ID");
  if (step == nullptr || variable("SLURM_PROCID") == nullptr) return std::nullopt;
  return number_in<std::int64_t>(step, 0, kFirstSpecialStep - 1);  // "batch" and the like are no numbers
}

// Returns the host of rank 0. Every distribution of tasks starts on the first host, except for
// "arbitrary", which follows the lines of SLURM_HOSTFILE. A line is a host list, and may end in the
// number of its tasks: "n1*2".
std::string host_of_rank_0(const std::vector<std::string>& hosts) {
  const char* distribution = variable("SLURM_DISTRIBUTION");
  if (distribution == nullptr || std::string_view(distribution) != "arbitrary") return hosts[0];
  const char* file = variable("SLURM_HOSTFILE");
  std::ifstream lines(file == nullptr ? "" : file);
  for (std::string line; std::getline(lines, line);) {
    line.erase(std::min(line.find_first_of("#*"), line.size()));
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (!line.empty()) return expand_hostlist(line)[0];
  }
  throw Error(ExitCode::environment,
              fmt::format("SLURM_DISTRIBUTION=arbitrary, and the file SLURM_HOSTFILE={}, whose first line is "
                          "the host of rank 0, cannot be read here: set MASTER_ADDR to the host of rank 0",
                          file == nullptr ? "" : file));
}

void read_slurm_place(Variables& variables, RankEnvironment& ranks) {
  const std::vector<int> counts = expand_counts(variables.text("SLURM_STEP_TASKS_PER_NODE"));
  const std::vector<std::string> hosts = expand_hostlist(variables.text("SLURM_STEP_NODELIST"));
  std::int64_t tasks = 0;
  for (const int count : counts) tasks += count;
  variables.require(hosts.size() == counts.size(),
                    "SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE must name the same number of nodes");
  variables.require(tasks == ranks.world_size,
                    fmt::format("SLURM_STEP_TASKS_PER_NODE adds up to {} tasks, not to SLURM_NTASKS", tasks));
  const std::size_t node = static_cast<std::size_t>(ranks.group_rank);
  variables.require(node < counts.size(), "SLURM_NODEID must be below the number of nodes");
  if (node < counts.size()) ranks.local_world_size = counts[node];
  if (variable("MASTER_ADDR") != nullptr) {
    ranks.master_addr = variables.text("MASTER_ADDR");
    return;
  }
  ranks.master_addr = host_of_rank_0(hosts);
  if (ranks.rank == 0 && node < hosts.size())
    variables.require(hosts[node] == ranks.master_addr,
                      fmt::format("rank 0 is on {} (SLURM_NODEID={}), and the other ranks look for it on {}: "
                                  "set MASTER_ADDR={}",
                                  hosts[node], node, ranks.master_addr, hosts[node]));
}

RankEnvironment from_slurm(std::int64_t step) {
  Variables variables("a Slurm step");
  RankEnvironment ranks;
  ranks.source = "slurm";
  ranks.rank = variables.whole("SLURM_PROCID", 0, kMaxWorldSize);
  ranks.world_size = variables.whole("SLURM_NTASKS", 1, kMaxWorldSize);
  ranks.local_rank = variables.whole("SLURM_LOCALID", 0, kMaxWorldSize);
  ranks.group_rank = variables.whole("SLURM_NODEID", 0, kMaxWorldSize);
  const std::int64_t job = variables.number("SLURM_JOB_ID", 0, INT64_MAX).value_or(0);
  ranks.run_id = fmt::format("{}.{}", job, step);
  ranks.restart_count = variables.optional_whole("SLURM_RESTART_COUNT", 0, INT_MAX, 0);
  variables.text("SLURM_STEP_TASKS_PER_NODE");
  variables.text("SLURM_STEP_NODELIST");
  variables.finish();  // throws if the lists read below are missing
  read_slurm_place(variables, ranks);
  variables.require_order(ranks, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "the tasks of this node");
  // Steps of a job may run at the same time on the same node.
  const std::int64_t port = kFirstSlurmPort + (job % kSlurmPorts + kPortsBetweenSteps * step) % kSlurmPorts;
  ranks.master_port = variables.optional_whole("MASTER_PORT", 1, 65535, static_cast<int>(port));
  variables.finish();
  return ranks;
}

// Throws Error(environment) unless the process is one of equally many ranks that the process of
// `claim` starts.
void require_agreement(const RankEnvironment& ranks, const Claim& own, const Claim& claim) {
  const auto value = [](const char* name) {
    const char* text = variable(name);
    return text == nullptr ? std::nullopt : number_in<std::int64_t>(text, 0, kMaxWorldSize);
  };
  const auto rank = value(claim.rank), size = value(claim.size);
  if (!rank || !size || *size == 0) return;
  if (ranks.world_size % *size == 0 && ranks.rank / (ranks.world_size / *size) == *rank) return;
  throw Error(
      ExitCode::environment,
      fmt::format("{}={} and {}={} contradict {}={} and {}={}: two launchers have set them, or one is "
                  "left over. Unset {}, {}{} to use the others, or unset {}, {}{}",
                  own.rank, ranks.rank, own.size, ranks.world_size, claim.rank, *rank, claim.size, *size,
                  own.rank, own.size, own.others, claim.rank, claim.size, claim.others));
}

// mpirun starts one daemon per node as a step, whose variables reach the ranks.
bool is_step_of_daemons(const RankEnvironment& ranks) {
  const char* tasks = variable("SLURM_STEP_TASKS_PER_NODE");
  if (tasks == nullptr) return true;
  for (const int count : expand_counts(tasks))
    if (count > 1) return false;
  return ranks.world_size > 1;
}

RankEnvironment checked(const RankEnvironment& ranks, const Claim& own) {
  const bool from_mpi = own.rank != kTorchrun.rank;
  // A launcher of a node, which may be a task of any kind, sets TORCHELASTIC_RUN_ID.
  if (!from_mpi && variable("TORCHELASTIC_RUN_ID") != nullptr) return ranks;
  if (!from_mpi) require_agreement(ranks, own, kOpenMpi);
  if (!from_mpi && variable("MPI_LOCALRANKID") != nullptr) require_agreement(ranks, own, kHydra);
  // A terminal in a step (srun --pty) starts its own ranks.
  const bool in_step = slurm_step() && variable("SLURM_PTY_PORT") == nullptr;
  if (in_step && !(from_mpi && is_step_of_daemons(ranks))) require_agreement(ranks, own, kSlurm);
  return ranks;
}

}  // namespace

RankEnvironment rank_environment() {
  for (const char* name : {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"})
    if (variable(name)) return checked(from_torchrun(), kTorchrun);
  if (variable(kOpenMpi.rank) || variable(kOpenMpi.size))
    return checked(from_mpi("mpirun (Open MPI)", "openmpi", kOpenMpi, "OMPI_COMM_WORLD_LOCAL_RANK",
                            "OMPI_COMM_WORLD_LOCAL_SIZE"),
                   kOpenMpi);
  if (variable("MPI_LOCALRANKID"))
    return checked(from_mpi("mpirun (Hydra)", "hydra", kHydra, "MPI_LOCALRANKID", "MPI_LOCALNRANKS"), kHydra);
  if (const auto step = slurm_step()) return from_slurm(*step);
  for (const char* name : {"PMI_RANK", "PMIX_RANK"})
    if (variable(name))
      throw Error(
          ExitCode::environment,
          fmt::format(
              "{}={} is set by a launcher of several ranks, but their placement is not known; start them "
              "with `rondo launch`, srun, mpirun or torchrun, or unset it to run alone",
              name, std::string_view(variable(name)).substr(0, 200)));
  return {};
}

}  // namespace rondo
