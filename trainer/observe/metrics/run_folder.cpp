// The order matters: the folder is locked before an earlier run's files are moved, so that two runs cannot
// move each other's. The lock is on the folder itself, and the kernel drops it with the process. Files are
// moved by a list of known names, so that what people put there stays. Space for exit.json is reserved at the
// start, since a full disk is one of the reasons that it must be able to name.
#include "trainer/observe/metrics/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "support/error.h"
#include "support/files/atomic_file.h"
#include "trainer/observe/metrics/machine.h"

namespace rondo {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::array kFilesOfARun = {"config.toml",  "env.json",       "metrics.jsonl",     "metrics.csv",
                                     "events.jsonl", "exit.json",      "expert_load.jsonl", "graph",
                                     "tb",           "profile_traces", "memory_snapshot",   "comm_traces"};

// What decides numbers or speed from outside the program.
constexpr std::array kVariablesThatMatter = {"OMP_NUM_THREADS",
                                             "MKL_NUM_THREADS",
                                             "OMP_PROC_BIND",
                                             "KMP_AFFINITY",
                                             "GOMP_CPU_AFFINITY",
                                             "ATEN_CPU_CAPABILITY",
                                             "ONEDNN_MAX_CPU_ISA",
                                             "MALLOC_ARENA_MAX",
                                             "LD_PRELOAD",
                                             "LD_LIBRARY_PATH",
                                             "CUDA_VISIBLE_DEVICES",
                                             "CUBLAS_WORKSPACE_CONFIG",
                                             "PYTORCH_ALLOC_CONF",
                                             "PYTORCH_CUDA_ALLOC_CONF",
                                             "NCCL_ALGO",
                                             "NCCL_PROTO",
                                             "NCCL_SOCKET_IFNAME",
                                             "GLOO_SOCKET_IFNAME",
                                             "RANK",
                                             "LOCAL_RANK",
                                             "WORLD_SIZE",
                                             "LOCAL_WORLD_SIZE",
                                             "MASTER_ADDR",
                                             "MASTER_PORT",
                                             "TORCHELASTIC_RUN_ID",
                                             "SLURM_JOB_ID",
                                             "SLURM_NNODES",
                                             "SLURM_NTASKS",
                                             "SLURM_RESTART_COUNT"};

[[noreturn]] void refuse(const fs::path& folder, const std::string& why) {
  throw Error(ExitCode::environment,
              fmt::format("job.dump_folder = \"{}\" {}; choose another folder", folder.string(), why));
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (fs::exists(status) && !fs::is_directory(status)) refuse(folder, "is a file, not a folder");
  fs::create_directories(folder, error);
  if (error && exit_code_of(error.value(), FileUse::run) == ExitCode::resources)
    throw FileError("create", folder, error.value(), FileUse::run);
  if (error) refuse(folder, "cannot be created (" + error.message() + ")");
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    refuse(folder, fmt::format("cannot be written to ({})", std::strerror(errno)));
}

// A lock on the folder itself: nothing to clean up, and the kernel drops it with the process.
int lock(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) refuse(folder, fmt::format("cannot be opened ({})", std::strerror(errno)));
  // File systems without locks (some NFS) answer something else than EWOULDBLOCK; they go unprotected.
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(fd);
    refuse(folder, "is being written by another run that is still alive");
  }
  return fd;
}

std::vector<fs::path> files_of_a_run(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const char* name : kFilesOfARun)
    if (fs::exists(fs::symlink_status(folder / name))) found.emplace_back(name);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("rank_") && (entry.is_directory() || name.ends_with(".crash.txt")))
      found.emplace_back(name);
  }
  return found;
}

std::optional<fs::path> move_earlier_run_aside(const fs::path& folder) {
  const std::vector<fs::path> files = files_of_a_run(folder);
  if (files.empty()) return std::nullopt;
  int number = 1;
  while (fs::exists(folder / fmt::format("previous-{}", number))) ++number;
  const fs::path aside = folder / fmt::format("previous-{}", number);
  fs::create_directory(aside);
  for (const fs::path& file : files) fs::rename(folder / file, aside / file);
  return aside;
}

std::string dump(const ordered_json& value, int indent) {
  // File names and host names need not be UTF-8; a replacement character is better than no record.
  return value.dump(indent, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

ordered_json variables() {
  ordered_json found = ordered_json::object();
  for (const char* name : kVariablesThatMatter)
    if (const char* value = std::getenv(name)) found[name] = value;
  return found;
}

}  // namespace

std::string utc_timestamp() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t total_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::time_t seconds = total_ms / 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, total_ms % 1000);
}

RunFolder::RunFolder(fs::path folder) : folder_(std::move(folder)) {
  make_folder(folder_);
  lock_fd_ = lock(folder_);
  try {
    previous_ = move_earlier_run_aside(folder_);
    fs::create_directory(graph_folder());
    fs::create_directory(tensorboard_folder());
    events_.emplace(folder_ / "events.jsonl");
    reserve_file(folder_ / "exit.json", FileUse::run);
  } catch (const fs::filesystem_error& error) {
    ::close(lock_fd_);
    throw Error(exit_code_of(error.code().value(), FileUse::run),
                fmt::format("cannot prepare the run folder {}: {}", folder_.string(), error.what()));
  } catch (...) {
    ::close(lock_fd_);
    throw;
  }
}

RunFolder::~RunFolder() { ::close(lock_fd_); }

std::vector<fs::path> RunFolder::earlier_runs() const {
  std::vector<fs::path> found;
  for (int number = 1; fs::exists(folder_ / fmt::format("previous-{}", number)); ++number)
    found.insert(found.begin(), folder_ / fmt::format("previous-{}", number));
  return found;
}

void RunFolder::write_config(std::string_view toml) {
  replace_file(folder_ / "config.toml", toml, FileUse::run);
}

void RunFolder::write_environment(const RunFacts& facts) {
  const Machine machine = read_machine();
  const ordered_json record = {
      {"time", utc_timestamp()},
      {"hostname", machine.hostname},
      {"pid", ::getpid()},
      {"kernel", machine.kernel},
      {"cpu", machine.cpu_model},
      {"cpu_features", machine.cpu_features},
      {"cores_online", machine.cores_online},
      {"affinity", core_list(machine.affinity)},
      {"memory_bytes", machine.memory_bytes},
      {"threads", facts.threads},
      {"versions", facts.versions},
      {"command_line", facts.command_line},
      {"working_folder", fs::current_path().string()},
      {"variables", variables()},
  };
  replace_file(folder_ / "env.json", dump(record, 2), FileUse::run);
}

void RunFolder::event(std::string_view name, const ordered_json& fields) {
  ordered_json line = {{"time", utc_timestamp()}, {"event", name}};
  for (const auto& [key, value] : fields.items()) line[key] = value;
  events_->append(dump(line, -1));
}

void RunFolder::event(std::string_view name) { event(name, ordered_json::object()); }

void RunFolder::write_exit(const ExitRecord& record) { write_exit_record(folder_, record); }

void write_exit_record(const fs::path& folder, const ExitRecord& record) {
  const ordered_json json = {
      {"exit_code", record.exit_code},
      {"signal", record.signal ? ordered_json(*record.signal) : ordered_json(nullptr)},
      {"rank", record.rank},
      {"reason", record.reason},
      {"ended_at", utc_timestamp()},
      {"by", record.by},
  };
  replace_file(folder / "exit.json", dump(json, 2), FileUse::run);
}

fs::path rank_folder(const fs::path& folder, int rank) {
  const fs::path own = folder / fmt::format("rank_{}", rank);
  make_folder(own);
  return own;
}

}  // namespace rondo
