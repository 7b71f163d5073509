// Locks the folder before anything in it is changed, so that two runs cannot move each other's
// files. The folder belongs to this run only after `begin`: a start that is refused earlier leaves
// no trace. Files are moved by a list of known names, so any other files stay. Space for exit.json
// is reserved when the run begins, since a full disk is one of the reasons that exit.json must be
// able to record.
#include "runs/metrics/run_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <utility>

#include "support/error.h"
#include "support/files/file.h"
#include "support/files/file_lines.h"
#include "support/log.h"
#include "support/logged_warnings.h"
#include "support/machine/machine.h"
#include "support/text/json_view.h"
#include "support/text/utc_time.h"

namespace rondo {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::int64_t kReservedBytes = 4096;  // for exit.json
constexpr std::int64_t kMaxSmallFileBytes = 1 << 20;

constexpr std::array kFilesOfARun = {"config.toml",  "env.json",       "metrics.jsonl",     "metrics.csv",
                                     "events.jsonl", "exit.json",      "expert_load.jsonl", "graph",
                                     "tb",           "profile_traces", "memory_snapshot",   "comm_traces",
                                     "console.log",  "console.log.1"};

// Variables that affect numbers or speed.
constexpr std::array kVariablesThatMatter = {"OMP_NUM_THREADS",
                                             "MKL_NUM_THREADS",
                                             "OMP_PROC_BIND",
                                             "OMP_WAIT_POLICY",
                                             "GOMP_SPINCOUNT",
                                             "KMP_AFFINITY",
                                             "GOMP_CPU_AFFINITY",
                                             "ATEN_CPU_CAPABILITY",
                                             "ONEDNN_MAX_CPU_ISA",
                                             "MALLOC_ARENA_MAX",
                                             "GLIBC_TUNABLES",
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

// Creates the folder and returns whether it was missing.
bool make_folder(const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (fs::exists(status) && !fs::is_directory(status)) refuse(folder, "is a file, not a folder");
  const bool created = fs::create_directories(folder, error);
  if (error && exit_code_of(error.value(), FileUse::run) == ExitCode::resources)
    throw FileError("create", folder, error.value(), FileUse::run);
  if (error) refuse(folder, "cannot be created (" + error.message() + ")");
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    refuse(folder, fmt::format("cannot be written to ({})", std::strerror(errno)));
  return created;
}

FolderLock lock(const fs::path& folder) {
  try {
    if (auto lock = FolderLock::take_patiently(folder, FileUse::run)) return std::move(*lock);
  } catch (const FileError& error) {
    if (error.code() == ExitCode::resources) throw;
    refuse(folder, fmt::format("cannot be opened ({})", std::strerror(error.error_number())));
  }
  refuse(folder,
         "is being written by another run that is still alive" + FolderLock::holder_elsewhere(folder));
}

void warn_of_mode(const fs::path& folder) {
  struct stat facts {};
  if (::stat(folder.c_str(), &facts) != 0) return;
  if ((facts.st_mode & S_IRWXU) != S_IRWXU)
    log_warning(
        fmt::format("only root can read and write {}, whose mode is {:03o}; `chmod u+rwx`, and a umask such "
                    "as 022, open it to its owner",
                    folder.string(), facts.st_mode & 0777U));
  if ((facts.st_mode & S_IWOTH) != 0)
    log_warning(
        fmt::format("every user of this machine can write to {} and change the files of the run; "
                    "`chmod o-w` prevents it",
                    folder.string()));
}

std::vector<fs::path> files_of_a_run(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const char* name : kFilesOfARun)
    if (fs::exists(fs::symlink_status(folder / name))) files.emplace_back(name);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if ((name.starts_with("rank_") && name.ends_with(".crash.txt")) || name.ends_with(".superseded.jsonl") ||
        name.starts_with("config.to_step_"))
      files.emplace_back(name);
  }
  return files;
}

fs::path move_aside(const fs::path& folder, const std::vector<fs::path>& files) {
  int number = 1;
  while (fs::exists(folder / fmt::format("previous-{}", number))) ++number;
  const fs::path aside = folder / fmt::format("previous-{}", number);
  fs::create_directory(aside);
  for (const fs::path& file : files) fs::rename(folder / file, aside / file);
  return aside;
}

// Throws or returns no object where there is no valid file.
ordered_json exit_of(const fs::path& folder) {
  return json_or_discarded<ordered_json>(read_file(folder / "exit.json", kMaxSmallFileBytes, FileUse::run));
}

// Returns when the files were last written, as utc_text; "" without them.
std::string last_line_at(const fs::path& folder) {
  const double last_s = std::max(modified_s(folder / "events.jsonl"), modified_s(folder / "metrics.jsonl"));
  return last_s > 0 ? utc_text(last_s) : "";
}

// Returns when the run of these files ended or, if it was killed, wrote its last line; "" if there
// is none.
std::string when_it_ended(const fs::path& folder) {
  try {
    return exit_of(folder).at("ended_at").get<std::string>();
  } catch (const std::exception&) {
    return last_line_at(folder);
  }
}

// Describes the end of the run. An invalid exit.json counts as missing.
std::string how_it_ended(const fs::path& folder) {
  try {
    const auto exit = exit_of(folder);
    return fmt::format("ended with {} at {}: {}", exit.at("exit_code").get<int>(),
                       exit.at("ended_at").get<std::string>(), exit.at("reason").get<std::string>());
  } catch (const std::exception&) {
  }
  const std::string last = last_line_at(folder);
  return "was killed, or its machine went down: it left no exit.json" +
         (last.empty() ? "" : "; its last line is of " + last);
}

// Returns the run of the files, from the first event that names it; "" if none does.
std::string begun_in(const fs::path& folder) {
  std::error_code missing;
  if (!fs::exists(folder / "events.jsonl", missing)) return "";
  FileLines events(folder / "events.jsonl", FileUse::run);
  while (const auto line = events.next()) {
    const auto event = json_or_discarded<ordered_json>(*line);
    if (event.is_object() && event.contains("begun") && event["begun"].is_string()) return event["begun"];
  }
  return "";
}

// Returns where the files of this run were moved; the numbers of such folders may have gaps.
std::optional<fs::path> previous_of(const fs::path& folder, const std::string& begun) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("previous-") && begun_in(entry.path()) == begun)
      return entry.path();
  return std::nullopt;
}

// Removes an incomplete last line that a kill has left.
void cut_torn_line(AppendFile& file) {
  const std::string text = read_file(file.path(), std::numeric_limits<std::int64_t>::max(), FileUse::run);
  if (!text.empty() && text.back() != '\n') file.cut(static_cast<std::int64_t>(text.rfind('\n') + 1));
}

std::string dump(const ordered_json& value, int indent) {
  // File names and host names need not be UTF-8: invalid bytes become replacement characters.
  return value.dump(indent, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

ordered_json variables() {
  ordered_json values = ordered_json::object();
  for (const char* name : kVariablesThatMatter)
    if (const char* value = std::getenv(name)) values[name] = value;
  return values;
}

}  // namespace

RunFolder::RunFolder(fs::path folder)
    : folder_(std::move(folder)), created_(make_folder(folder_)), lock_(lock(folder_)) {}

RunFolder::~RunFolder() {
  if (has_begun()) return;
  std::error_code not_empty;
  fs::remove(folder_ / FolderLock::kFile, not_empty);
  if (created_) fs::remove(folder_, not_empty);
}

void RunFolder::begin(const std::optional<Resumed>& resumed) {
  resumed_ = resumed;
  warn_of_mode(folder_);
  try {
    const std::vector<fs::path> files = files_of_a_run(folder_);
    if (!files.empty()) earlier_end_ = how_it_ended(folder_);
    begun_ = resumed ? begun_in(folder_) : "";
    const bool is_other_run = resumed && !resumed->begun.empty() && begun_ != resumed->begun;
    if (!files.empty() && (!resumed || is_other_run)) previous_ = move_aside(folder_, files);
    if (is_other_run) {
      begun_ = resumed->begun;
      if (const auto own = previous_of(folder_, begun_)) {
        for (const fs::path& file : files_of_a_run(*own)) fs::rename(*own / file, folder_ / file);
        fs::remove(*own);
        brought_back_ = own;
      }
    }
    if (begun_.empty()) begun_ = fmt::format("{}-{:08x}", utc_now(), std::random_device{}());
    ended_before_ = when_it_ended(folder_);
    fs::remove(folder_ / "exit.json");
    fs::remove_all(graph_folder());
    fs::create_directory(graph_folder());
    fs::create_directory(tensorboard_folder());
    events_.emplace(folder_ / "events.jsonl");
    cut_torn_line(*events_);
  } catch (const fs::filesystem_error& error) {
    throw Error(exit_code_of(error.code().value(), FileUse::run),
                fmt::format("cannot prepare the run folder {}: {}", folder_.string(), error.what()));
  }
  try {
    exit_.emplace(folder_ / "exit.json", FileUse::run);
    exit_->reserve(kReservedBytes);
  } catch (const FileError&) {
    // The later write reports the error if it persists.
  }
}

void RunFolder::write_config(std::string_view toml) {
  const fs::path file = folder_ / "config.toml";
  if (resumed_ && fs::exists(file) && read_file(file, kMaxSmallFileBytes, FileUse::run) != toml) {
    const fs::path before = folder_ / fmt::format("config.to_step_{}.toml", resumed_->steps);
    rename_file(file, before, FileUse::run);
    log_info("the configuration differs from that of the earlier steps, which is in " + before.string());
  }
  replace_file(file, toml, FileUse::run);
}

void RunFolder::write_environment(const RunFacts& facts) {
  const Machine machine = read_machine();
  const ordered_json record = {
      {"time", utc_now()},
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
  ordered_json line = {{"time", utc_now()}, {"event", name}};
  for (const auto& [key, value] : fields.items()) line[key] = value;
  events_->append(dump(line, -1));
}

void RunFolder::event(std::string_view name) { event(name, ordered_json::object()); }

void RunFolder::write_warnings() {
  for (const std::string& text : take_logged_warnings()) event("warning", {{"text", text}});
}

void RunFolder::write_exit(const ExitRecord& record) {
  const ordered_json json = {
      {"exit_code", record.exit_code},
      {"signal", record.signal ? ordered_json(*record.signal) : ordered_json(nullptr)},
      {"rank", record.rank},
      {"reason", record.reason},
      {"ended_at", utc_now()},
      {"by", "rank"},
  };
  const std::string text = dump(json, 2);
  if (!exit_) return replace_file(folder_ / "exit.json", text, FileUse::run);
  exit_->write_at(0, std::as_bytes(std::span(text)));
  exit_->commit();
  exit_.reset();
}

}  // namespace rondo
