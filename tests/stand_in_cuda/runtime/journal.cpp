// Each line is written to the file by one system call, so that killed ranks leave complete lines.
// Each environment variable is read once, at its first use.
#include "tests/stand_in_cuda/runtime/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>
#include <vector>

#include "tests/stand_in_cuda/runtime/state.h"

namespace stand_in::journal {
namespace {

struct Live {
  const char* name;
  std::int64_t (*count)();
};

// Never destroyed: other destructors call it.
struct Journal {
  int file = -1;
  std::map<std::string_view, std::int64_t> counts;
  std::map<std::string_view, std::int64_t> chances;
  std::vector<Live> live;
};
Journal& journal() {
  static auto* const one = [] {
    auto* made = new Journal;
    if (const char* folder = std::getenv("RONDO_STAND_IN")) {
      const char* rank = std::getenv("RANK");
      const std::string path = std::string(folder) + "/rank" + (rank == nullptr ? "0" : rank) + ".txt";
      made->file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    }
    return made;
  }();
  return *one;
}

thread_local std::int64_t calls_of_thread = 0;
bool capture_has_begun = false;

// "NAME:N" and the rest.
struct Chosen {
  std::string name;
  std::int64_t number = 0;
  int code = 0;
};
Chosen chosen(const char* variable) {
  Chosen found;
  const char* text = std::getenv(variable);
  const char *victim = std::getenv("RONDO_STAND_IN_RANK"), *rank = std::getenv("RANK");
  if (text == nullptr || (victim != nullptr && rank != nullptr && std::string_view(victim) != rank))
    return found;
  const std::string_view all = text;
  found.name = all.substr(0, all.find(':'));
  if (const auto first = all.find(':'); first != all.npos) {
    found.number = std::atoll(text + first + 1);
    if (const auto second = all.find(':', first + 1); second != all.npos)
      found.code = std::atoi(text + second + 1);
  }
  return found;
}

// A process ends in one of two ways: with the destructors of its libraries, or by quick_exit.
__attribute__((destructor)) void summarize() {
  const std::lock_guard lock(everything());
  const Journal& all = journal();
  if (all.counts.empty()) return;
  for (const auto& [name, count] : all.counts)
    line("count %s %lld", std::string(name).c_str(), (long long)count);
  for (const Live& live : all.live) line("live %s %lld", live.name, (long long)live.count());
  line("exit");
}

__attribute__((constructor)) void summarize_at_quick_exit() { std::at_quick_exit(&summarize); }

}  // namespace

void line(const char* format, ...) {
  Journal& all = journal();
  if (all.file < 0) return;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(text, sizeof text - 1, format, arguments);
  va_end(arguments);
  std::size_t bytes = std::min<std::size_t>(static_cast<std::size_t>(length), sizeof text - 2);
  text[bytes++] = '\n';
  if (write(all.file, text, bytes) < 0) std::abort();
}

int count(const char* call) {
  ++calls_of_thread;
  return fault(call);
}

int fault(const char* call) {
  static const auto* const failing = new Chosen(chosen("RONDO_STAND_IN_FAIL"));
  static bool broken = false;
  Journal& all = journal();
  const std::int64_t number = ++all.counts[call];
  if (broken) return failing->code;
  if (failing->name != call || number < failing->number) return 0;
  line("injected %s number=%lld error=%d", call, (long long)number, failing->code);
  broken = failing->code >= cudaErrorIllegalAddress && failing->code <= cudaErrorLaunchFailure;
  return failing->code;
}

bool lose(const char* call) {
  static const auto* const lost = new Chosen(chosen("RONDO_STAND_IN_LOSE"));
  static std::int64_t calls = 0;
  if (!capture_has_begun || lost->name != call) return false;
  if (++calls != lost->number && lost->number != 0) return false;
  line("lost %s number=%lld", call, (long long)calls);
  return true;
}

void note_capture() { capture_has_begun = true; }

int answer(std::size_t bytes) {
  static const auto* const counts = new Chosen(chosen("RONDO_STAND_IN_ANSWER"));
  return static_cast<std::int64_t>(bytes) == counts->number ? counts->code : -1;
}

std::int64_t slow_us(const char* kernel) {
  static const auto* const slow = new Chosen(chosen("RONDO_STAND_IN_SLOW"));
  return slow->name == kernel ? slow->number : 0;
}

std::int64_t calls() { return calls_of_thread; }

bool bug(const char* name) {
  static const auto* const wanted = new Chosen(chosen("RONDO_STAND_IN_BUG"));
  if (wanted->name != name || ++journal().chances[name] != wanted->number) return false;
  line("bug %s", name);
  return true;
}

void at_exit(const char* name, std::int64_t (*live)()) { journal().live.push_back({name, live}); }

}  // namespace stand_in::journal
