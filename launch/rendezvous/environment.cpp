// Uses the first launcher whose variables are set, in the order of rank_environment(). Each
// launcher has a reader over a common collector, which records missing, invalid and set variables.
// All problems are reported in one message. Relations between numbers are checked only if every
// number is valid. A batch script of Slurm has task variables, too; only the number of the step
// tells it from a step.
#include "launch/rendezvous/environment.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <climits>
#include <cstdint>
#include <cstdlib>
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

RankEnvironment from_mpi(const char* starter, const char* source, const char* rank, const char* size,
                         const char* local_rank, const char* local_size) {
  Variables variables(starter);
  RankEnvironment ranks;
  ranks.source = source;
  ranks.rank = variables.whole(rank, 0, kMaxWorldSize);
  ranks.world_size = variables.whole(size, 1, kMaxWorldSize);
  ranks.local_rank = variables.whole(local_rank, 0, kMaxWorldSize);
  ranks.local_world_size = variables.whole(local_size, 1, kMaxWorldSize);
  variables.require_order(ranks, rank, size, local_rank, local_size);
  if (variables.sound()) read_master(variables, ranks);
  variables.finish();
  return ranks;
}

bool is_slurm_task() {
  const char* step = variable("SLURM_STEP_ID");
  if (step == nullptr || variable("SLURM_PROCID") == nullptr) return false;
  const auto number = number_in<std::int64_t>(step, 0, INT64_MAX);
  return number && *number < kFirstSpecialStep;  // "batch" and the like are no numbers
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
  ranks.master_addr = hosts[0];
}

RankEnvironment from_slurm() {
  Variables variables("a Slurm step");
  RankEnvironment ranks;
  ranks.source = "slurm";
  ranks.rank = variables.whole("SLURM_PROCID", 0, kMaxWorldSize);
  ranks.world_size = variables.whole("SLURM_NTASKS", 1, kMaxWorldSize);
  ranks.local_rank = variables.whole("SLURM_LOCALID", 0, kMaxWorldSize);
  ranks.group_rank = variables.whole("SLURM_NODEID", 0, kMaxWorldSize);
  const std::int64_t job = variables.number("SLURM_JOB_ID", 0, INT64_MAX).value_or(0);
  ranks.run_id = std::to_string(job);
  ranks.restart_count = variables.optional_whole("SLURM_RESTART_COUNT", 0, INT_MAX, 0);
  variables.text("SLURM_STEP_TASKS_PER_NODE");
  variables.text("SLURM_STEP_NODELIST");
  variables.finish();  // throws if the lists read below are missing
  read_slurm_place(variables, ranks);
  variables.require_order(ranks, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "the tasks of this node");
  if (variable("MASTER_ADDR") != nullptr) ranks.master_addr = variables.text("MASTER_ADDR");
  ranks.master_port =
      variables.optional_whole("MASTER_PORT", 1, 65535, 10000 + static_cast<int>(job % 20000));
  variables.finish();
  return ranks;
}

}  // namespace

RankEnvironment rank_environment() {
  for (const char* name : {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"})
    if (variable(name)) return from_torchrun();
  if (variable("OMPI_COMM_WORLD_RANK") || variable("OMPI_COMM_WORLD_SIZE"))
    return from_mpi("mpirun (Open MPI)", "openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                    "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  if (variable("MPI_LOCALRANKID"))
    return from_mpi("mpirun (Hydra)", "hydra", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
  if (is_slurm_task()) return from_slurm();
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
