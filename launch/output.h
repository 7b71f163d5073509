// Routes the output of ranks: to the console line by line, to log files, or nowhere.
//
// Never blocks. When the console accepts no more bytes (a pager, a stopped terminal), ranks are not
// read, but the launcher keeps serving them. Rondo's ranks then drop lines (support/log.h); other
// programs block. A thread writes the log files, because a file server may block it.
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

// The launcher's stdout or stderr.
class Console {
 public:
  explicit Console(int fd) : fd_(fd) {}
  void add(std::string_view text);
  bool is_full() const { return waiting_.size() > kFullBytes; }
  bool wants_to_write() const { return !waiting_.empty(); }
  int fd() const { return fd_; }
  void write_ready();              // writes what the descriptor accepts without blocking
  void write_all(int timeout_ms);  // gives up after the timeout

 private:
  bool takes_bytes(int timeout_ms) const;

  static constexpr std::size_t kFullBytes = 1 << 18;
  int fd_;
  std::string waiting_;
};

// Writes log files in the background. At most 4 MiB are queued; the rest is dropped, and the file
// records how many bytes.
class LogWriter {
 public:
  using File = std::shared_ptr<Fd>;
  LogWriter();
  ~LogWriter();  // waits up to 5 s for queued bytes
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  void add(const File& file, std::string_view bytes);

 private:
  struct Queue;  // shared with the thread, which outlives this object if a write hangs
  std::shared_ptr<Queue> queue_;
};

// One stream of one rank, read from a pipe.
class Forwarder {
 public:
  // `console` and `log` may be null. `prefix` is printed before every line on the console, except
  // before lines that begin with `tag`, since they name the rank themselves.
  Forwarder(Fd pipe, Console* console, LogWriter* writer, LogWriter::File log, std::string prefix,
            std::string tag);
  int fd() const { return pipe_.get(); }
  bool may_read() const { return pipe_ && (console_ == nullptr || !console_->is_full()); }
  void read_some();
  void drain();  // reads all that is in the pipe, an unfinished line too; then closes it
  const std::string& last_line() const { return last_line_; }

 private:
  bool read_once();
  void take_lines();
  void show(std::string_view line);

  Fd pipe_;
  Console* console_;
  LogWriter* writer_;
  LogWriter::File log_;
  std::string prefix_, tag_, partial_, last_line_;
};

// Destinations of one rank's streams. The child gets `child_fds` as stdout and stderr; -1 inherits
// the launcher's.
struct RankStreams {
  std::array<Fd, 2> child_fds;
  std::array<std::unique_ptr<Forwarder>, 2> forwarders;  // [0] stdout, [1] stderr
  std::string error_log;                                 // path of stderr.log, or ""
  std::string last_error_line() const;
};

class Output {
 public:
  explicit Output(const LaunchOptions& options) : options_(options) {}

  // `folder` is the log folder of this rank and attempt; it is created if a stream goes to a file.
  // Throws Error(resources) if that fails.
  RankStreams open(int local_rank, int rank, int ranks_shown, const std::string& folder);
  void say(std::string_view text);  // prints a line of the launcher itself to stderr

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
