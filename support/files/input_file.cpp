// The only place that retries reads. Pauses double from 0.1 s to 10 s. A failure closes the
// descriptor, because a stale one (NFS) never works again. The reopened file must have the same
// size.
#include "support/files/input_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

#include "support/error.h"
#include "support/files/slow_reads.h"
#include "support/log.h"
#include "support/stop_signal.h"
#include "support/stopwatch.h"

namespace rondo {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{100}, kMaxPause{10'000}, kStopInterval{50};
constexpr std::int64_t kBlockBytes = 4096, kAheadBytes = 64 * kBlockBytes;
// a cursor with this many sequential reads is expected to continue
constexpr int kSequentialReads = 4;
constexpr int kMaxOpen = 256;  // descriptors that stay open

std::atomic<milliseconds> patience{milliseconds(60'000)};
std::atomic<int> open_files{0};

// Returns false if a stop was requested.
bool pause_for(milliseconds pause) {
  for (; pause > milliseconds(0) && !stop_requested(); pause -= kStopInterval)
    std::this_thread::sleep_for(std::min(pause, kStopInterval));
  return !stop_requested();
}

}  // namespace

void set_read_patience(milliseconds most) { patience = most; }

InputFile::Place::Place() : stays_open(open_files.fetch_add(1) < kMaxOpen) {
  if (!stays_open) --open_files;
}

InputFile::Place::~Place() {
  if (stays_open) --open_files;
}

template <class Read>
auto InputFile::patiently(std::int64_t offset, Read read) const {
  const Stopwatch stopwatch;
  milliseconds pause = kFirstPause;
  for (int failures = 1;; ++failures) {
    try {
      const SlowRead slow_read(path_, offset);
      return read();
    } catch (const FileError& error) {
      if (!may_pass(error.error_number())) throw;
      file_.reset();
      const milliseconds left =
          patience.load() - milliseconds(static_cast<std::int64_t>(1000 * stopwatch.seconds()));
      pause = std::min(pause, left);
      const auto give_up = [&] {
        throw FileError(fmt::format("read byte {} ({} tries) of", offset, failures), path_,
                        error.error_number(), use_);
      };
      if (left <= milliseconds(0)) give_up();
      log_warning(
          fmt::format("{}: cannot read byte {}: {}; try {} failed, retrying in {:.1f} s, for "
                      "at most {:.0f} s more",
                      path_.string(), offset, std::strerror(error.error_number()), failures,
                      1e-3 * static_cast<double>(pause.count()), 1e-3 * static_cast<double>(left.count())));
      if (!pause_for(pause)) give_up();
      pause = std::min(2 * pause, kMaxPause);
    }
  }
}

InputFile::InputFile(std::filesystem::path path, FileUse use) : path_(std::move(path)), use_(use) {
  size_ = patiently(0, [&] { return opened(0).bytes(); });
  close_unless_cached();
}

const File& InputFile::opened(std::int64_t offset) const {
  if (file_) return *file_;
  file_ = File::open(path_, use_);
  if (const std::int64_t current_size = file_->bytes(); size_ >= 0 && current_size != size_)
    fail_changed(offset, current_size);
  return *file_;
}

void InputFile::close_unless_cached() const {
  if (!place_.stays_open) file_.reset();
}

std::size_t InputFile::read_some_at(std::int64_t offset, std::span<std::byte> out) const {
  const std::size_t count = patiently(offset, [&] { return opened(offset).read_some_at(offset, out); });
  close_unless_cached();
  return count;
}

void InputFile::read_at(std::int64_t offset, std::span<std::byte> out) const {
  patiently(offset, [&] {
    const std::size_t count = opened(offset).read_some_at(offset, out);
    const std::int64_t current_size = opened(offset).bytes();
    if (current_size != size_ || count != out.size()) fail_changed(offset, current_size);
    return count;
  });
  close_unless_cached();
}

void InputFile::fail_changed(std::int64_t offset, std::int64_t size_now) const {
  throw Error(
      exit_code_of(use_),
      fmt::format("{}: changed while in use: it had {} bytes and now has {}; the read was at byte {}. "
                  "Restore the file, or start a new run on the new data",
                  path_.string(), size_, size_now, offset));
}

InputFile::Block& InputFile::block_with(std::int64_t offset) const {
  for (Block& cached : blocks_)
    if (cached.begin <= offset && offset < cached.end()) return cached;
  const std::int64_t begin = offset / kBlockBytes * kBlockBytes;
  sequential_reads_ = begin == next_begin_ ? sequential_reads_ + 1 : 0;
  const std::int64_t block_bytes = sequential_reads_ >= kSequentialReads ? kAheadBytes : kBlockBytes;
  Block& block = blocks_[std::exchange(oldest_, (oldest_ + 1) % blocks_.size())];
  block = {.begin = begin};  // empty, in case the read fails
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(block_bytes, size_ - begin)));
  read_at(begin, bytes);
  block.bytes = std::move(bytes);
  next_begin_ = block.end();
  return block;
}

void InputFile::load_bytes(std::int64_t offset, std::span<std::byte> out) const {
  RONDO_ASSERT(offset >= 0 && offset <= size_ - std::ssize(out), "a load outside the file");
  while (!out.empty()) {
    Block& block = block_with(offset);
    const std::size_t count = std::min(out.size(), static_cast<std::size_t>(block.end() - offset));
    std::memcpy(out.data(), block.bytes.data() + (offset - block.begin), count);
    out = out.subspan(count);
    offset += static_cast<std::int64_t>(count);
    // read to the end, once
    if (offset == size_ && std::ssize(block.bytes) > kBlockBytes) block = {};
  }
}

}  // namespace rondo
