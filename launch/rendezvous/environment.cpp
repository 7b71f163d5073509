// The first starter whose variables are there is believed, in the order of the function at the end. Each has
// a reader of its own over a common collector, which notes what is missing, wrong or set; all of it is
// reported in one message. Relations between numbers are checked only where each is sound. A batch script of
// Slurm has task variables too, and is told from a step by the step's number.
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
constexpr std::int64_t kFirstSpecialStep =
    0xfffffff0;  // batch, interactive and extern steps are numbered above

const char* variable(const char* name) { return std::getenv(name); }

// Reads the variables of one starter and collects what is wrong with them, so that all of it is reported at
// once.
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
    const auto found = number_in(value, lowest, highest);
    if (!found)
      problems_.push_back(fmt::format("{} must be a whole number from {} to {}", name, lowest, highest));
    return found;
  }

  int whole(const char* name, int lowest, int highest) {
    return static_cast<int>(number(name, lowest, highest).value_or(lowest));
  }
  int optional_whole(const char* name, int lowest, int highest, int otherwise) {
    return variable(name) == nullptr ? otherwise : whole(name, lowest, highest);
  }

  void require(bool holds, std::string rule) {
    if (!holds) problems_.push_back(std::move(rule));
  }
  bool sound() const { return missing_.empty() && problems_.empty(); }

  // The rules that hold whoever started the ranks.
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
    std::string message = fmt::format("the environment of {} is not sound: ", starter_);
    for (const std::string& problem : problems_) message += problem + "; ";
    if (!missing_.empty()) message += fmt::format("missing {}; ", joined(missing_));
    throw Error(
        ExitCode::environment,
        fmt::format(
            "{}set are {}. Start ranks with `rondo launch`, srun, mpirun or torchrun, or unset these to "
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

// The socket that the launcher bound for rank 0.
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

// mpirun names no meeting place: on one node there is a default, for several it must be given.
void read_master(Variables& variables, RankEnvironment& ranks) {
  const bool one_node = ranks.local_world_size == ranks.world_size;
  if (!one_node || variable("MASTER_ADDR") != nullptr) ranks.master_addr = variables.text("MASTER_ADDR");
  ranks.master_port = one_node ? variables.optional_whole("MASTER_PORT", 1, 65535, kDefaultMasterPort)
                               : variables.whole("MASTER_PORT", 1, 65535);
  // Nodes have no number here; ranks are placed node by node unless someone asked for another mapping.
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
                    "SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE must name as many nodes");
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
  variables.finish();  // the lists below can only be read when they are there
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
          fmt::format("{}={} says that this is one of several ranks, but not how they are placed; start them "
                      "with `rondo launch`, srun, mpirun or torchrun, or unset it to run alone",
                      name, std::string_view(variable(name)).substr(0, 200)));
  return {};
}

}  // namespace rondo
