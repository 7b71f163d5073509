// Each check returns its finding and a command to run, and does not stop at missing parts. LibTorch
// is checked from outside: the worker runs as a child with a time limit, because a broken library
// ends a process before main. Parts that only some uses need are absent, not missing. Loopback is
// tested with a real connection, since a configured interface may still refuse one.
#include "apps/rondo/doctor_checks.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "apps/rondo/run_program.h"
#include "support/machine/core_room.h"
#include "support/machine/gpus.h"
#include "support/machine/instructions.h"
#include "support/machine/machine.h"
#include "support/machine/memory_room.h"
#include "support/process_start.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

const char* set_up() {
  return is_installed() ? "unpack the archive again" : "scripts/setup.sh, then build again";
}

Finding ok(const std::string& subject, const std::string& detail) { return {Health::ok, subject, detail}; }
Finding absent(const std::string& subject, const std::string& detail) {
  return {Health::absent, subject, detail};
}
Finding warning(const std::string& subject, const std::string& detail, const std::string& advice) {
  return {.health = Health::warning, .subject = subject, .detail = detail, .advice = advice};
}

std::string trimmed(const std::string& text) {
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  return last == std::string::npos ? "" : text.substr(0, last + 1);
}

std::string first_line(const std::string& text) { return trimmed(text.substr(0, text.find('\n'))); }

// Returns the advice for a failed worker. The loader reports a library that it cannot find; other
// failures are the worker's own.
std::string worker_advice(const ProgramResult& result) {
  if (result.timed_out) return "the machine may be overloaded; run it yourself: rondo-worker --version";
  if (result.output.find("error while loading shared libraries") != std::string::npos)
    return std::string("LibTorch was moved or is incomplete: ") + set_up();
  if (result.exit_code == 128 + 4)  // SIGILL
    return "this processor lacks instructions that it was built for: build again on this machine";
  return set_up();
}

Finding check_worker(const fs::path& program_folder, int timeout_ms) {
  const fs::path worker = program_folder / "rondo-worker";
  Finding finding{.health = Health::missing, .subject = "worker", .detail = "", .advice = set_up()};
  if (!fs::exists(worker)) {
    finding.detail = worker.string() + " does not exist";
    return finding;
  }
  const ProgramResult result = run_program({worker.string(), "--version"}, timeout_ms);
  if (!result.started) {
    finding.detail = fmt::format("{} cannot be started: {}", worker.string(), result.output);
  } else if (result.timed_out) {
    finding.detail = fmt::format("{} did not answer in {:g} s", worker.string(), timeout_ms / 1e3);
    finding.advice = worker_advice(result);
  } else if (result.exit_code != 0) {
    finding.detail =
        fmt::format("{} ended with {}: {}", worker.string(), result.exit_code, trimmed(result.output));
    finding.advice = worker_advice(result);
  } else {
    finding = ok("worker", first_line(result.output));
  }
  return finding;
}

// Returns what the worker finds when it uses each GPU; nullopt where there is none to use.
std::optional<Finding> check_gpus(const fs::path& program_folder) {
  constexpr int kTimeout_ms = 120'000;  // a context takes up to seconds on each GPU
  if (visible_gpus() == 0) return std::nullopt;
  const ProgramResult result =
      run_program({(program_folder / "rondo-worker").string(), "--gpus"}, kTimeout_ms);
  const std::string line = first_line(result.output);
  if (result.exit_code == 0 && !result.timed_out)
    return line.empty() ? absent("cuda", "this program was built without it") : ok("cuda", line);
  const std::size_t at = line.find("error: ");
  return warning("cuda", at == line.npos ? "rondo-worker --gpus failed: " + line : line.substr(at + 7),
                 "training with job.device = \"cuda\" needs every GPU; nvidia-smi");
}

Finding check_cpu(const Machine& machine) {
  const auto has = [&](const char* feature) {
    return std::find(machine.cpu_features.begin(), machine.cpu_features.end(), feature) !=
           machine.cpu_features.end();
  };
  const std::string detail =
      fmt::format("{} ({}): {}", machine.cpu_model.empty() ? "unknown" : machine.cpu_model,
                  fmt::join(machine.cpu_features, " "), instructions_text(machine.cpu_features));
  if (has("avx2") || has("asimd")) return ok("cpu", detail);
  return warning("cpu", detail + "; training will be slow", "use a newer processor");
}

Finding check_cores(const Machine& machine) {
  const int usable = static_cast<int>(machine.affinity.size());
  std::string detail = fmt::format("{} usable ({})", usable, core_list(machine.affinity));
  if (usable != machine.cores_online) detail += fmt::format(" of {} online", machine.cores_online);
  if (const CoreRoom room = core_room(); !room.quota.empty())
    detail += fmt::format("; {}, so `auto` takes {}", room.quota, room.cores);
  return ok("cores", detail);
}

Finding check_memory(const Machine& machine) {
  constexpr double kComfortableGib = 2;
  const double available_gib = static_cast<double>(machine.memory_available_bytes) / kGiB;
  std::string detail = fmt::format("{:.1f} GiB, {:.1f} GiB available",
                                   static_cast<double>(machine.memory_bytes) / kGiB, available_gib);
  const MemoryRoom room = memory_room(1);
  const double room_gib = static_cast<double>(room.bytes) / kGiB;
  if (room.bytes < machine.memory_bytes)
    detail += fmt::format("; a process has {:.1f} GiB {}", room_gib, room.where);
  if (std::min(available_gib, room_gib) >= kComfortableGib) return ok("memory", detail);
  return warning("memory", detail, "close other programs, raise the limit, or train with fewer ranks");
}

double free_gib(const fs::path& folder) {
  struct statvfs space {};
  if (statvfs(folder.c_str(), &space) != 0) return 0;
  return static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize) / kGiB;
}

Finding check_disk(const fs::path& folder) {
  constexpr double kNeededGib = 0.1, kComfortableGib = 2;
  const double gib = free_gib(folder);
  const std::string detail = fmt::format("{:.1f} GiB free in {}", gib, folder.string());
  if (access(folder.c_str(), W_OK) != 0)
    return warning("disk", detail + ", but not writable", "give another --job.dump_folder");
  if (gib >= kComfortableGib) return ok("disk", detail);
  return {.health = gib < kNeededGib ? Health::missing : Health::warning,
          .subject = "disk",
          .detail = detail,
          .advice = "free space, or give a --job.dump_folder on another disk"};
}

Finding check_open_files() {
  constexpr rlim_t kComfortable = 1024;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  // Rondo's programs raise the soft limit themselves.
  const std::string detail = fmt::format("{}", limit.rlim_max);
  if (limit.rlim_max >= kComfortable) return ok("open files", detail);
  return warning("open files", detail, "raise the hard limit (ulimit -Hn 65536, as root)");
}

Finding check_locked_memory(bool has_gpu) {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return ok("memlock", "unlimited");
  const std::string detail = fmt::format("{} KiB", limit.rlim_cur / 1024);
  if (!has_gpu) return ok("memlock", detail + " (matters with InfiniBand only)");
  return warning("memlock", detail + ", InfiniBand needs more", "ulimit -l unlimited");
}

Finding check_shared_memory() {
  constexpr double kComfortableGib = 0.06;
  if (!fs::is_directory("/dev/shm"))
    return warning("/dev/shm", "does not exist", "mount -t tmpfs tmpfs /dev/shm");
  const double gib = free_gib("/dev/shm");
  const std::string detail = fmt::format("{:.2f} GiB free", gib);
  if (gib >= kComfortableGib) return ok("/dev/shm", detail);
  return warning("/dev/shm", detail, "in a container: docker run --shm-size=1g");
}

Finding check_hostname(const std::string& hostname) {
  addrinfo* addresses = nullptr;
  const int error = getaddrinfo(hostname.c_str(), nullptr, nullptr, &addresses);
  if (error == 0) {
    freeaddrinfo(addresses);
    return ok("hostname", hostname);
  }
  return warning("hostname", fmt::format("{} does not resolve: {}", hostname, gai_strerror(error)),
                 fmt::format("several nodes need it; as root: echo 127.0.1.1 {} >> /etc/hosts", hostname));
}

// Connects over 127.0.0.1, as ranks of one machine do. Returns what failed, or "".
std::string try_loopback() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const char* failed = "";
  if (bind(listener, generic, size) != 0) {
    failed = "bind";
  } else if (listen(listener, 1) != 0 || getsockname(listener, generic, &size) != 0) {
    failed = "listen";
  } else if (connect(caller, generic, size) != 0) {
    failed = "connect";
  }
  const std::string message = *failed == '\0' ? "" : fmt::format("{}: {}", failed, std::strerror(errno));
  close(caller);
  close(listener);
  return message;
}

Finding check_loopback() {
  const std::string trouble = try_loopback();
  if (trouble.empty()) return ok("loopback", "127.0.0.1 accepts connections");
  return {.health = Health::missing,
          .subject = "loopback",
          .detail = "127.0.0.1 does not work: " + trouble,
          .advice = "as root: ip link set lo up"};
}

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    const std::string text = read_small_file((entry.path() / "information").c_str());
    names.push_back(cpuinfo_value(text, "Model"));
  }
  return names;
}

Finding check_driver(const std::vector<std::string>& gpus) {
  const std::string version = first_line(read_small_file("/proc/driver/nvidia/version"));
  if (version.empty()) return absent("gpu", "no NVIDIA driver; training runs on CPU");
  return ok("gpu", fmt::format("{} GPUs: {}; {}", gpus.size(), fmt::join(gpus, ", "), version));
}

// run_train.sh decides by the same two facts (rondo_preset in scripts/env.sh).
Finding check_nvcc(bool has_gpu) {
  const char* home = std::getenv("CUDA_HOME");
  for (const fs::path& folder : {fs::path(home == nullptr ? "" : home) / "bin",
                                 fs::path(RONDO_TORCH_DIR).parent_path() / "nvidia/cu13/bin",
                                 fs::path("/usr/local/cuda/bin"), fs::path("/usr/bin")})
    if (fs::exists(folder / "nvcc"))
      return ok("nvcc", (folder / "nvcc").string() +
                            (has_gpu ? "; run_train.sh builds the preset cuda"
                                     : "; without a GPU run_train.sh builds the preset cpu"));
  return {.health = has_gpu ? Health::warning : Health::absent,
          .subject = "nvcc",
          .detail = "not found; run_train.sh builds the preset cpu",
          .advice = "scripts/setup.sh --cuda, then RONDO_PRESET=cuda"};
}

Finding check_nccl(const fs::path& program_folder) {
  const fs::path wheel = fs::path(RONDO_TORCH_DIR).parent_path() / "nvidia/nccl/lib/libnccl.so.2";
  const fs::path installed = program_folder.parent_path() / "lib/libnccl.so.2";
  for (const fs::path& library : {installed, wheel, fs::path("/usr/lib/x86_64-linux-gnu/libnccl.so.2")})
    if (fs::exists(library)) return ok("nccl", library.string());
  return absent("nccl", "not found; only GPUs need it");
}

Finding check_corpus(const fs::path& working_folder) {
  const fs::path corpus = working_folder / here_or_shipped("data/corpus");
  std::error_code error;
  if (fs::exists(corpus, error) && !fs::is_empty(corpus, error)) return ok("corpus", corpus.string());
  return warning("corpus", corpus.string() + " does not exist (the default training text)",
                 std::string(is_installed() ? "" : "scripts/setup.sh, or ") +
                     "give your own text with --training.dataset_path");
}

}  // namespace

std::vector<Finding> examine(const fs::path& program_folder, const fs::path& working_folder,
                             int worker_timeout_ms) {
  const Machine machine = read_machine();
  const std::vector<std::string> gpus = gpu_names();
  std::vector<Finding> findings = {
      check_worker(program_folder, worker_timeout_ms),
      check_cpu(machine),
      check_cores(machine),
      check_memory(machine),
      check_disk(working_folder),
      check_shared_memory(),
      check_open_files(),
      check_locked_memory(!gpus.empty()),
      check_loopback(),
      check_hostname(machine.hostname),
      check_corpus(working_folder),
      check_driver(gpus),
  };
  const bool has_worker = findings.front().health == Health::ok;
  if (const auto gpu = has_worker ? check_gpus(program_folder) : std::nullopt) findings.push_back(*gpu);
  if (!is_installed()) findings.push_back(check_nvcc(!gpus.empty()));  // only builds need it
  findings.push_back(check_nccl(program_folder));
  return findings;
}

}  // namespace rondo
