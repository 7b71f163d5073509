// The page is a memfd, not a file: the kernel writes dirty pages of files to disk, and a store to
// such a page waits for that. Its size is sealed, so that a rank cannot crash the launcher by
// truncating it. All fields are relaxed atomics; texts are stored word by word. Each thread that
// reads files has a slot, so that a hanging read is not hidden by the next one. With more threads
// than slots the latest read wins.
#include "support/watch/progress.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "support/error.h"
#include "support/log.h"

namespace rondo::progress {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::size_t kReaders = 8;
constexpr std::int64_t kLayout = 0x726f6e646f706731;  // "rondopg1": change it with the struct below

template <std::size_t kBytes>
class Text {
 public:
  void set(std::string_view text) {
    const std::size_t length = std::min(text.size(), kBytes - 1);
    for (std::size_t at = 0; at <= length; at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + at, std::min<std::size_t>(8, length - at));
      words_[at / 8].store(word, kRelaxed);
    }
  }
  std::string get() const {
    std::array<char, kBytes> bytes;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const std::uint64_t word = words_[i].load(kRelaxed);
      std::memcpy(bytes.data() + 8 * i, &word, 8);
    }
    return {bytes.data(), strnlen(bytes.data(), kBytes)};
  }

 private:
  std::array<std::atomic<std::uint64_t>, kBytes / 8> words_{};
};

using Number = std::atomic<std::int64_t>;

struct Reader {
  Number since{0};  // number of the note; 0: not reading
  Text<256> path;
};

struct Content {
  Number layout{0};  // kLayout once a rank has joined
  Number notes{0}, doing{0}, step{0}, saved{-1}, phase{0};
  Number calls{0}, in_group{-1}, waits{0};
  Text<32> collective;
  Text<64> group, collective_for, op, module;
  std::array<Reader, kReaders> readers;
};
static_assert(Number::is_always_lock_free);

Content local_content;
std::atomic<Content*> content{&local_content};

Content& page() { return *content.load(kRelaxed); }

std::int64_t note() { return page().notes.fetch_add(1, kRelaxed) + 1; }

Reader& reader_of_thread() {
  static std::atomic<std::size_t> threads{0};
  thread_local const std::size_t slot = threads++ % kReaders;
  return page().readers[slot];
}

void store_collective(std::string_view name, std::string_view group, std::int64_t in_group,
                      std::string_view module) {
  Content& at = page();
  at.collective.set(name);
  at.group.set(group);
  at.in_group.store(in_group, kRelaxed);
  at.collective_for.set(module);
}

template <class Enum>
Enum as(std::int64_t value, Enum last) {
  return static_cast<Enum>(std::clamp<std::int64_t>(value, 0, static_cast<std::int64_t>(last)));
}

Seen read(const Content& page) {
  Seen seen;
  seen.doing = as(page.doing.load(kRelaxed), Doing::saving);
  seen.step = std::max<std::int64_t>(page.step.load(kRelaxed), 0);
  seen.saved = std::max<std::int64_t>(page.saved.load(kRelaxed), -1);
  seen.notes = page.notes.load(kRelaxed);
  seen.calls = std::max<std::int64_t>(page.calls.load(kRelaxed), 0);
  seen.waits = page.waits.load(kRelaxed) != 0;
  if (const std::int64_t number = page.in_group.load(kRelaxed); number >= 0)
    seen.collective = fmt::format("{} {} of group {}", page.collective.get(), number, page.group.get());
  seen.op = page.op.get();
  seen.module = seen.waits ? page.collective_for.get() : page.module.get();
  seen.phase = as(page.phase.load(kRelaxed), Phase::update);
  std::int64_t oldest = 0;
  for (const Reader& reader : page.readers) {
    const std::int64_t since = reader.since.load(kRelaxed);
    if (since <= 0 || (oldest > 0 && since > oldest)) continue;
    oldest = since;
    seen.file = reader.path.get();
  }
  return seen;
}

const char* name_of(Doing doing) {
  switch (doing) {
    case Doing::starting:
      return "starting";
    case Doing::between_steps:
      return "between steps";
    case Doing::training:
      return "in a step, between two ops";
    case Doing::loading:
      return "waiting for a batch";
    case Doing::validating:
      return "in a validation, between two ops";
    case Doing::agreeing:
      return "agreeing with the other ranks";
    case Doing::saving:
      return "saving a checkpoint";
  }
  return "?";
}

// Hardened kernels create only memfds that cannot be executed. Kernels before 6.3 do not know the
// flag.
int make_memfd() {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING, kNotExecutable = 8;  // MFD_NOEXEC_SEAL
  const int fd = memfd_create("rondo-progress", kFlags | kNotExecutable);
  return fd >= 0 || errno != EINVAL ? fd : memfd_create("rondo-progress", kFlags);
}

bool is_page(int fd) {
  struct stat status {};
  return fcntl(fd, F_GET_SEALS) >= 0 && fstat(fd, &status) == 0 &&
         status.st_size == static_cast<off_t>(sizeof(Content));
}

}  // namespace

void join_launcher() {
  const char* variable = std::getenv("RONDO_PROGRESS_FD");
  if (variable == nullptr) return;
  const int fd = std::atoi(variable);
  void* memory =
      is_page(fd) ? mmap(nullptr, sizeof(Content), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (memory == MAP_FAILED)
    return log_warning(
        "the launcher cannot see this rank's progress: RONDO_PROGRESS_FD is not the page that it created");
  close(fd);
  content.store(new (memory) Content, kRelaxed);
  page().layout.store(kLayout, kRelaxed);
}

void at_step(std::int64_t step) {
  note();
  page().step.store(step, kRelaxed);
}
std::int64_t step() { return page().step.load(kRelaxed); }
void saved(std::int64_t step) { page().saved.store(step, kRelaxed); }

void running(std::string_view op, std::string_view module, Phase phase) {
  note();
  Content& at = page();
  at.op.set(op);
  at.module.set(module);
  at.phase.store(static_cast<std::int64_t>(phase), kRelaxed);
}
void running_nothing() { running("", "", Phase::forward); }

void called(std::int64_t calls, std::string_view name, std::string_view group, std::int64_t in_group,
            std::string_view module) {
  note();
  page().calls.store(calls + 1, kRelaxed);
  store_collective(name, group, in_group, module);
}

void waits_for(std::string_view name, std::string_view group, std::int64_t in_group,
               std::string_view module) {
  note();
  store_collective(name, group, in_group, module);
  page().waits.store(1, kRelaxed);
}

void waits_no_more() {
  note();
  page().waits.store(0, kRelaxed);
}

Work::Work(Doing doing) : outer_(as(page().doing.load(kRelaxed), Doing::saving)) {
  note();
  page().doing.store(static_cast<std::int64_t>(doing), kRelaxed);
}

Work::~Work() {
  note();
  page().doing.store(static_cast<std::int64_t>(outer_), kRelaxed);
}

Reading::Reading(std::string_view path) {
  constexpr std::size_t kMax = 255;
  Reader& reader = reader_of_thread();
  reader.path.set(path.substr(path.size() > kMax ? path.size() - kMax : 0));
  reader.since.store(note(), kRelaxed);
}

Reading::~Reading() {
  note();
  reader_of_thread().since.store(0, kRelaxed);
}

Seen seen() { return read(page()); }
std::int64_t notes() { return page().notes.load(kRelaxed); }

std::string where(const Seen& seen) {
  const std::string for_module = seen.module.empty() ? "" : " for " + seen.module;
  if (seen.doing == Doing::loading && !seen.file.empty()) return "in a read of " + seen.file;
  if (seen.waits) return "in " + seen.collective + for_module;
  if (!seen.op.empty()) return "at " + seen.op + for_module + " (" + phase_name(seen.phase) + ")";
  return name_of(seen.doing);
}

Page::Page() : fd_(make_memfd()), memory_(MAP_FAILED) {
  if (fd_ >= 0 && ftruncate(fd_, sizeof(Content)) == 0 &&
      fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    memory_ = mmap(nullptr, sizeof(Content), PROT_READ, MAP_SHARED, fd_, 0);
  if (memory_ != MAP_FAILED) return;
  const int failure = errno;
  if (fd_ >= 0) close(fd_);
  throw Error(ExitCode::resources,
              fmt::format("cannot create the memory page of a rank's progress: {}", std::strerror(failure)));
}

Page::~Page() {
  munmap(memory_, sizeof(Content));
  close(fd_);
}

std::optional<Seen> Page::seen() const {
  const auto& at = *static_cast<const Content*>(memory_);
  return at.layout.load(kRelaxed) == kLayout ? std::optional(read(at)) : std::nullopt;
}

std::int64_t Page::notes() const { return static_cast<const Content*>(memory_)->notes.load(kRelaxed); }

}  // namespace rondo::progress
