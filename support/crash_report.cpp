// All code that runs after the crash is async-signal-safe: no allocation, no lock, no stream.
#include "support/crash_report.h"

#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>

namespace rondo {
namespace {

constexpr std::array kCrashes = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
constexpr int kFrames = 64;

int rank_of_process = 0;
char crash_file[4096] = "";
thread_local CurrentWork current;

// A line that is built without the heap.
class Line {
 public:
  Line& text(const char* string) {
    for (; *string != '\0' && length_ < sizeof buffer_ - 1; ++string) buffer_[length_++] = *string;
    return *this;
  }
  Line& number(std::uint64_t value, unsigned base) {
    char digits[20];
    int count = 0;
    do {
      digits[count++] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    while (count > 0 && length_ < sizeof buffer_ - 1) buffer_[length_++] = digits[--count];
    return *this;
  }
  void write_to(int fd) {
    buffer_[length_++] = '\n';
    [[maybe_unused]] const ssize_t ignored = ::write(fd, buffer_, length_);
  }

 private:
  char buffer_[1024];
  std::size_t length_ = 0;
};

void report(int fd, int signal, const siginfo_t& info, void* const* frames, int count) {
  char thread[17] = "";
  prctl(PR_GET_NAME, thread);
  Line line;
  line.text("rondo: rank ").number(static_cast<std::uint64_t>(rank_of_process), 10);
  line.text(" crashed: SIG").text(sigabbrev_np(signal));
  if (signal != SIGABRT)
    line.text(" at address 0x").number(reinterpret_cast<std::uintptr_t>(info.si_addr), 16);
  line.text(", thread ").text(thread).text(" ");
  line.number(static_cast<std::uint64_t>(syscall(SYS_gettid)), 10);
  if (current.what != nullptr) line.text(", while running ").text(current.what);
  if (current.where != nullptr && *current.where != '\0') line.text(" of ").text(current.where);
  line.write_to(fd);
  backtrace_symbols_fd(frames, count, fd);
}

std::atomic<long> reporting{0};  // id of the reporting thread

void raise_default(int signal) {
  struct sigaction default_action {};
  default_action.sa_handler = SIG_DFL;
  sigaction(signal, &default_action, nullptr);
  raise(signal);  // stays pending until the handler returns, then ends the process
}

// Threads of one kernel may crash together. The first one reports; the others wait until it ends
// the process.
extern "C" void on_crash(int signal, siginfo_t* info, void*) {
  const long this_thread = syscall(SYS_gettid);
  long reporter = 0;
  if (!reporting.compare_exchange_strong(reporter, this_thread)) {
    if (reporter == this_thread) return raise_default(signal);  // the report itself crashed
    while (true) pause();
  }
  void* frames[kFrames];
  const int count = backtrace(frames, kFrames);
  report(STDERR_FILENO, signal, *info, frames, count);
  if (crash_file[0] != '\0') {
    const int fd = open(crash_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd >= 0) {
      report(fd, signal, *info, frames, count);
      close(fd);
    }
  }
  raise_default(signal);
}

}  // namespace

void install_crash_report(int rank) {
  rank_of_process = rank;
  void* frame;
  backtrace(&frame, 1);  // loads its library, because a crashed process cannot
  static std::array<char, 64 * 1024> stack;
  stack_t alternate{};
  alternate.ss_sp = stack.data();
  alternate.ss_size = stack.size();
  sigaltstack(&alternate, nullptr);  // also reports an overflow of the main thread's stack
  struct sigaction action {};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int signal : kCrashes) sigaction(signal, &action, nullptr);
}

void set_crash_file(const std::string& file) {
  if (file.size() >= sizeof crash_file) return;
  std::memcpy(crash_file, file.c_str(), file.size() + 1);
}

void set_current_work(const CurrentWork& work) { current = work; }
const CurrentWork& current_work() { return current; }

}  // namespace rondo
