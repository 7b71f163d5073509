// What ranks print: to the console line by line, to log files, or nowhere.
//
// Never blocks: when the console does not take more (a pager, a stopped terminal), reading from the ranks
// stops, while the launcher goes on minding them. Ranks of ours then drop lines (support/log.h); other
// programs wait. Log files are written by a thread, which a file server may hold up.
#pragma once

#include <poll.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launch/options.h"
#include "launch/rendezvous/net.h"

namespace rondo::launch {

// stdout or stderr of the launcher.
class Console {
 public:
  explicit Console(int fd) : fd_(fd) {}
  void add(std::string_view text);
  bool is_full() const { return waiting_.size() > kEnough; }
  bool wants_to_write() const { return !waiting_.empty(); }
  int fd() const { return fd_; }
  void write_ready();              // what the descriptor takes without blocking
  void write_all(int timeout_ms);  // gives up after the timeout

 private:
  bool takes_bytes(int timeout_ms) const;

  static constexpr std::size_t kEnough = 1 << 18;
  int fd_;
  std::string waiting_;
};

// Writes log files in the background. 4 MiB may wait; what is beyond is dropped, and the file says how much.
class LogWriter {
 public:
  using File = std::shared_ptr<Fd>;
  LogWriter();
  ~LogWriter();  // waits up to 5 s for what is left
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  void add(const File& file, std::string_view bytes);

 private:
  struct Queue;  // shared with the thread, which outlives this where a file stands still
  std::shared_ptr<Queue> queue_;
};

// One stream of one rank, read from a pipe.
class Forwarder {
 public:
  // `console` and `log` may be missing. The prefix goes before every line of the console.
  Forwarder(Fd pipe, Console* console, LogWriter* writer, LogWriter::File log, std::string prefix);
  int fd() const { return pipe_.get(); }
  bool may_read() const { return pipe_ && (console_ == nullptr || !console_->is_full()); }
  void read_some();
  void drain();  // all that is in the pipe now, an unfinished line too; then closes it
  const std::string& last_line() const { return last_line_; }

 private:
  bool read_once();
  void take_lines();
  void show(std::string_view line);

  Fd pipe_;
  Console* console_;
  LogWriter* writer_;
  LogWriter::File log_;
  std::string prefix_, partial_, last_line_;
};

// Where one rank's streams go. The child takes `child_fds` (-1: inherit the launcher's) as stdout and stderr.
struct RankStreams {
  std::array<Fd, 2> child_fds;
  std::array<std::unique_ptr<Forwarder>, 2> forwarders;  // [0] stdout, [1] stderr
  std::string error_log;                                 // path of stderr.log, or ""
  std::string last_error_line() const;
};

class Output {
 public:
  explicit Output(const LaunchOptions& options) : options_(options) {}

  // `folder` is the log folder of this rank and attempt; it is made when a stream goes to a file.
  // Throws Error(resources) when that cannot be done.
  RankStreams open(int local_rank, int rank, int ranks_shown, const std::string& folder);
  void say(std::string_view text);  // a line of the launcher itself, to stderr

  void add_polls(std::vector<pollfd>& polls) const;
  void serve();
  void finish() {
    for (Console& console : consoles_) console.write_all(5000);
  }

 private:
  const LaunchOptions& options_;
  LogWriter writer_;
  std::array<Console, 2> consoles_ = {Console(1), Console(2)};
};

}  // namespace rondo::launch
