#include "trainer/hugging_face/folder_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "support/error.h"
#include "trainer/safetensors/io_error.h"

namespace rondo::hugging_face {
namespace {

using safetensors::throw_io_error;

constexpr std::size_t kMostBytes = 100'000'000;

// Closes with its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return fd_; }
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

}  // namespace

std::string read_small_file(const std::filesystem::path& file) {
  // O_NONBLOCK: to open a pipe would wait for a writer.
  const Descriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (fd < 0 || ::fstat(fd, &info) != 0) throw_io_error("open", file, errno);
  if (!S_ISREG(info.st_mode)) throw Error(ExitCode::checkpoint, file.string() + ": not a file");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size > kMostBytes)
    throw Error(ExitCode::checkpoint,
                fmt::format("{}: {} bytes, and such a file has at most {}", file.string(), size, kMostBytes));
  std::string text(size, '\0');
  std::size_t filled = 0;
  while (filled < size) {
    const ssize_t count = ::read(fd, text.data() + filled, size - filled);
    if (count == 0) break;
    if (count < 0 && errno != EINTR) throw_io_error("read", file, errno);
    if (count > 0) filled += static_cast<std::size_t>(count);
  }
  text.resize(filled);
  return text;
}

nlohmann::json parse_object(std::string_view text, const std::string& file) {
  std::string problem = "it is not one JSON object";
  try {
    // The parser would take a NUL for the end of its input.
    if (text.find('\0') == text.npos) {
      nlohmann::json object = nlohmann::json::parse(text);
      if (object.is_object()) return object;
    }
  } catch (const nlohmann::json::parse_error& error) {
    problem = fmt::format("not valid JSON at byte {}", error.byte);
  }
  throw Error(ExitCode::checkpoint, fmt::format("{}: {}; fetch or write it again", file, problem));
}

void write_new_file(const std::filesystem::path& file, std::string_view text) {
  Descriptor fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (fd < 0) throw_io_error("write", file, errno);
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno != EINTR) throw_io_error("write", file, errno);
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  }
  if (::fsync(fd) != 0 || fd.close() != 0) throw_io_error("write", file, errno);
}

void sync_folder(const std::filesystem::path& folder) {
  const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd < 0 || ::fsync(fd) != 0) throw_io_error("write", folder, errno);
}

bool is_shard_name(const std::string& name) {
  return name.size() <= 255 && name.ends_with(".safetensors") && name.front() != '.' &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

}  // namespace rondo::hugging_face
