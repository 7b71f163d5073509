// A child reads inputs until one breaks a rule; it then ends, and the next child goes on behind
// that input. What it is reading stands in shared memory, so that it is not lost with the child.
// The parent is the watchdog: it compares the child's processor time with that at the beginning of
// the input.
#include "tests/attack/fuzz/campaign.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "tests/attack/fuzz/mutate.h"
#include "tests/attack/fuzz/seeds.h"

namespace rondo::attack {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

#ifdef __SANITIZE_ADDRESS__
constexpr double kMax_s = 20;  // what is watched runs ten times slower
#else
constexpr double kMax_s = 2;
#endif
constexpr double kMaxWaiting_s = 60;
constexpr std::uint64_t kInputsOfAChild = 100'000;  // libc keeps some of what it was given, as every setenv
constexpr std::int64_t kMaxBytes = std::int64_t{256} << 20;
constexpr std::uint64_t kMaxFindings = 100;
constexpr int kKeptOfAKind = 3;
constexpr int kBroke = 70;  // exit code of a child that found something

// What the child tells.
struct Shared {
  std::atomic<std::uint64_t> next;     // number of the input that it reads, or will
  std::atomic<double> began_s, cpu_s;  // when it began with that, by the clock and by its own time
  std::uint64_t accepted, worst_input;
  double worst_ms;
  std::int64_t worst_bytes;
  char what[1000];  // of what it found
  char file[256];   // name of the file that the input stands for
  std::size_t length;
  char text[kLongestMutant];
};

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

// "" where the parser does what it may.
std::string judge(const Parser& parser, const Input& input, bool& accepted) {
  try {
    parser.read(input);
    accepted = true;
    return "";
  } catch (const Error& error) {
    if (std::find(parser.refusals.begin(), parser.refusals.end(), error.code()) == parser.refusals.end())
      return "exit code " + std::to_string(static_cast<int>(error.code())) + ": " + error.what();
    return std::strlen(error.what()) > 0 ? "" : "an error without a word";
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "something thrown that is no exception";
  }
}

// Nothing that a parser prints is of interest, but for what a sanitizer says, which the parent
// reads.
void silence(const fs::path& errors) {
  const int null = open("/dev/null", O_RDWR);
  const int file = open(errors.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
  dup2(null, 0), dup2(null, 1), dup2(file, 2);
}

[[noreturn]] void read_inputs(const Parser& parser, const Campaign& campaign, std::uint64_t end,
                              const fs::path& work, Shared& shared) {
  silence(work / "stderr");
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const Seeds seeds(parser, work / "files");
  const std::int64_t had_bytes = peak_bytes();
  for (std::uint64_t number = shared.next; number < end; shared.next = ++number) {
    if (number % 256 == 0 && ftruncate(2, 0) != 0) _exit(1);
    const Input input = seeds.make(campaign.seed, number);
    shared.length = input.text.size();
    std::memcpy(shared.text, input.text.data(), input.text.size());
    std::strncpy(shared.file, input.file.filename().c_str(), sizeof shared.file - 1);
    seeds.lay_out(input);
    shared.cpu_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    shared.began_s = seconds_of(CLOCK_MONOTONIC);
    bool accepted = false;
    std::string what = judge(parser, input, accepted);
    const double ms = 1000 * (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - shared.cpu_s);
    shared.began_s = 0;
    seeds.put_back(input);
    const std::int64_t bytes = peak_bytes() - had_bytes;
    if (what.empty() && bytes > kMaxBytes) what = "took more than 256 MiB";
    shared.accepted += accepted;
    shared.worst_bytes = std::max(shared.worst_bytes, bytes);
    if (ms > shared.worst_ms) shared.worst_ms = ms, shared.worst_input = number;
    if (what.empty()) continue;
    std::strncpy(shared.what, what.c_str(), sizeof shared.what - 1);
    _exit(kBroke);
  }
  std::exit(0);  // where leaks are looked for
}

// The line of a sanitizer's report that names the bug, or "".
std::string sanitizer_line(const fs::path& errors) {
  std::ifstream in(errors);
  for (std::string line; std::getline(in, line);)
    for (const char* mark : {"runtime error:", "SUMMARY:"})
      if (line.find(mark) != line.npos) return line;
  return "";
}

// Waits for the child and says how it ended; "" where it came to the end.
std::string end_of(pid_t child, Shared& shared, const fs::path& errors) {
  clockid_t clock{};
  clock_getcpuclockid(child, &clock);
  bool too_long = false;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const double began_s = shared.began_s;
    if (began_s == 0) continue;
    const bool busy = seconds_of(clock) - shared.cpu_s > kMax_s;
    if (!busy && seconds_of(CLOCK_MONOTONIC) - began_s < kMaxWaiting_s) continue;
    if (shared.began_s != began_s) continue;
    too_long = true;
    kill(child, SIGKILL);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  if (WIFEXITED(status) && WEXITSTATUS(status) == kBroke) return shared.what;
  if (too_long) return "took too long";
  if (const std::string line = sanitizer_line(errors); !line.empty()) return line;
  return WIFSIGNALED(status) ? "killed by signal " + std::to_string(WTERMSIG(status))
                             : "exit code " + std::to_string(WEXITSTATUS(status)) + " of the process";
}

class WorkFolder {
 public:
  WorkFolder() {
    const char* folder = fs::exists("/dev/shm") ? "/dev/shm" : "/tmp";
    std::string pattern = std::string(folder) + "/rondo_fuzz_XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path = pattern;
  }
  ~WorkFolder() { fs::remove_all(path); }
  fs::path path;
};

}  // namespace

Result attack(const Parser& parser, const Campaign& campaign) {
  const WorkFolder work;
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap failed");
  Shared& shared = *new (memory) Shared{};
  shared.next = campaign.first;
  const std::uint64_t count =
      std::max<std::uint64_t>(1, campaign.runs / static_cast<std::uint64_t>(parser.cost));
  const std::uint64_t end = campaign.first + count;
  Result result;
  std::uint64_t found = 0;
  const Clock::time_point began = Clock::now();
  while (shared.next < end) {
    shared.began_s = 0;
    fs::remove_all(work.path / "files");
    fs::create_directories(work.path / "files");
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("fork failed");
    const std::uint64_t last = std::min(end, shared.next + kInputsOfAChild);
    if (child == 0) read_inputs(parser, campaign, last, work.path, shared);
    const std::string what = end_of(child, shared, work.path / "stderr");
    if (what.empty()) continue;
    const std::uint64_t number = shared.next;
    if (++result.findings[what] <= kKeptOfAKind) {
      fs::create_directories(campaign.findings);
      const fs::path kept =
          campaign.findings / (std::string(parser.name) + "-" + std::to_string(number) + "-" + shared.file);
      std::ofstream(kept, std::ios::binary).write(shared.text, static_cast<std::streamsize>(shared.length));
      std::ofstream(kept.string() + ".why") << what << "\n" << std::ifstream(work.path / "stderr").rdbuf();
    }
    shared.next = number + 1;
    if (++found == kMaxFindings) {
      result.gave_up = true;
      break;
    }
  }
  result.inputs = shared.next - campaign.first;
  result.accepted = shared.accepted;
  if (result.inputs >= 100 && result.accepted == 0)
    result.findings["no input is accepted: are the seeds stale?"] = 1;
  result.seconds = std::chrono::duration<double>(Clock::now() - began).count();
  result.worst_ms = shared.worst_ms;
  result.worst_input = shared.worst_input;
  result.worst_bytes = shared.worst_bytes;
  munmap(memory, sizeof(Shared));
  return result;
}

}  // namespace rondo::attack
