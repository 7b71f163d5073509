// Pipes are read only while the console's buffer has room. So a stuck console blocks the ranks, not
// the launcher. A write takes at most PIPE_BUF bytes, which a pipe that polls as writable accepts
// without blocking. A stream that goes to a file alone is opened for the rank itself, without a
// pipe. A single rank on a terminal keeps the terminal. A log that cannot be written is abandoned,
// because a full disk must not end the job. The thread that writes logs starts with the first line
// and is abandoned if it hangs.
#include "launch/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

#include "launch/failure.h"
#include "support/error.h"
#include "support/log.h"
#include "support/stopwatch.h"

namespace rondo::launch {
namespace {

constexpr std::size_t kLongestLine = 1 << 16;  // longer lines are shown in pieces
constexpr std::size_t kKeptLine = 400;

Fd open_log(const std::string& folder, const char* name) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  const std::string path = folder + "/" + name;
  Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd)
    throw Error(ExitCode::resources, fmt::format("cannot write {}: {}; choose another --log-dir", path,
                                                 failed ? failed.message() : std::strerror(errno)));
  return fd;
}

constexpr std::size_t kMaxQueued = 4 << 20;
constexpr std::chrono::seconds kLastWait{5};

void write_log(Fd& log, std::string_view bytes) {
  while (log && !bytes.empty()) {
    const ssize_t written = write(log.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    // a full disk must not end the job; the console still gets the lines
    if (written < 0) return log.reset();
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

struct LogWriter::Queue {
  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return ends || !chunks.empty(); });
      if (chunks.empty()) return;
      const auto [file, text] = std::move(chunks.front());
      chunks.pop_front();
      lock.unlock();
      write_log(*file, text);
      lock.lock();
      bytes -= text.size();
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<File, std::string>> chunks;
  std::size_t bytes = 0, dropped = 0;  // bytes: queued, or being written
  bool works = false, ends = false;
};

LogWriter::LogWriter() : queue_(std::make_shared<Queue>()) {}

LogWriter::~LogWriter() {
  std::unique_lock lock(queue_->mutex);
  queue_->ends = true;
  queue_->changed.notify_all();
  queue_->changed.wait_for(lock, kLastWait, [this] { return queue_->bytes == 0; });
}

void LogWriter::add(const File& file, std::string_view bytes) {
  const std::lock_guard lock(queue_->mutex);
  if (queue_->bytes + bytes.size() > kMaxQueued) {
    queue_->dropped += bytes.size();
    return;
  }
  std::string text;
  if (const std::size_t dropped = std::exchange(queue_->dropped, 0); dropped > 0)
    text =
        fmt::format("[{} bytes were dropped here or in a neighboring log: the disk was too slow]\n", dropped);
  text += bytes;
  queue_->bytes += text.size();
  queue_->chunks.emplace_back(file, std::move(text));
  if (!std::exchange(queue_->works, true)) std::thread([queue = queue_] { queue->work(); }).detach();
  queue_->changed.notify_all();
}

void Console::add(std::string_view text) {
  if (fd_ >= 0) waiting_ += text;
}

bool Console::takes_bytes(int timeout_ms) const {
  pollfd ready{fd_, POLLOUT, 0};
  return !waiting_.empty() && poll(&ready, 1, timeout_ms) > 0;
}

void Console::write_ready() {
  while (takes_bytes(0)) {
    // A pipe that polls as writable takes PIPE_BUF bytes without blocking.
    const ssize_t written = write(fd_, waiting_.data(), std::min<std::size_t>(waiting_.size(), PIPE_BUF));
    if (written >= 0) {
      waiting_.erase(0, static_cast<std::size_t>(written));
    } else if (errno != EAGAIN && errno != EINTR) {
      fd_ = -1;  // the reader is gone
      waiting_.clear();
    }
  }
}

void Console::write_all(int timeout_ms) {
  const double deadline = now_s() + timeout_ms / 1000.0;
  while (!waiting_.empty() && now_s() < deadline)
    if (takes_bytes(100)) write_ready();
}

Forwarder::Forwarder(Fd pipe, Console* console, LogWriter* writer, LogWriter::File log, std::string prefix,
                     std::string tag)
    : pipe_(std::move(pipe)),
      console_(console),
      writer_(writer),
      log_(std::move(log)),
      prefix_(std::move(prefix)),
      tag_(std::move(tag)) {}

bool Forwarder::read_once() {
  std::array<char, 16384> buffer;
  const ssize_t got = read(pipe_.get(), buffer.data(), buffer.size());
  if (got < 0) return errno == EINTR;
  if (got == 0) {
    pipe_.reset();
    return false;
  }
  const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
  if (log_) writer_->add(log_, bytes);
  partial_ += bytes;
  take_lines();
  return true;
}

void Forwarder::read_some() {
  if (pipe_) read_once();
}

void Forwarder::drain() {
  while (pipe_ && read_once()) {
  }
  pipe_.reset();
  if (!partial_.empty()) show(partial_);
  partial_.clear();
}

void Forwarder::take_lines() {
  std::size_t begin = 0;
  for (std::size_t end; (end = partial_.find('\n', begin)) != std::string::npos; begin = end + 1)
    show(std::string_view(partial_).substr(begin, end - begin));
  partial_.erase(0, begin);
  if (partial_.size() < kLongestLine) return;
  show(partial_);
  partial_.clear();
}

void Forwarder::show(std::string_view line) {
  if (line.find_first_not_of(" \t\r") != std::string_view::npos) last_line_ = line.substr(0, kKeptLine);
  if (console_ == nullptr) return;
  std::string prefixed;
  prefixed.reserve(prefix_.size() + line.size() + 1);
  if (!line.starts_with(tag_)) prefixed += prefix_;
  console_->add(prefixed.append(line).append("\n"));
}

std::string RankStreams::last_error_line() const {
  if (forwarders[1]) return forwarders[1]->last_line();
  return error_log.empty() ? "" : last_line_of(error_log);
}

RankStreams Output::open(int local_rank, int rank, int ranks_shown, const std::string& folder) {
  RankStreams streams;
  const auto& filter = options_.local_ranks_filter;
  const bool is_shown = filter.empty() || filter.count(local_rank) > 0;
  const std::string prefix = ranks_shown > 1 ? fmt::format("[{}{}]: ", options_.role, rank) : "";
  for (int i = 0; i < 2; ++i) {
    const int bit = 1 << i;
    const char* name = i == 0 ? "stdout.log" : "stderr.log";
    const bool to_both = options_.tee.of(local_rank) & bit;
    const bool to_file =
        to_both || options_.redirects.of(local_rank) & bit || (!is_shown && !options_.log_dir.empty());
    const bool to_console = is_shown && (to_both || !to_file);
    Fd log = to_file ? open_log(folder, name) : Fd();
    if (to_file && i == 1) streams.error_log = folder + "/" + name;
    if (to_file && !to_console) {
      streams.child_fds[i] = std::move(log);
    } else if (to_file || !to_console || ranks_shown > 1 || !isatty(i + 1)) {
      int ends[2];
      if (pipe2(ends, O_CLOEXEC) != 0)
        throw Error(ExitCode::resources,
                    fmt::format("cannot create a pipe for rank {}: {}; raise `ulimit -n`", rank,
                                std::strerror(errno)));
      fcntl(ends[0], F_SETFL, O_NONBLOCK);
      streams.child_fds[i] = Fd(ends[1]);
      streams.forwarders[i] = std::make_unique<Forwarder>(
          Fd(ends[0]), to_console ? &consoles_[i] : nullptr, &writer_,
          log ? std::make_shared<Fd>(std::move(log)) : nullptr, prefix, log_tag(rank));
    }  // else the only rank keeps the terminal
  }
  return streams;
}

void Output::say(std::string_view text) {
  consoles_[1].add("rondo launch: ");
  consoles_[1].add(text);
  consoles_[1].add("\n");
}

void Output::add_polls(std::vector<pollfd>& polls) const {
  for (const Console& console : consoles_)
    if (console.wants_to_write()) polls.push_back({console.fd(), POLLOUT, 0});
}

void Output::serve() {
  for (Console& console : consoles_) console.write_ready();
}

}  // namespace rondo::launch
