#include "support/files/atomic_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace rondo {
namespace {

namespace fs = std::filesystem;

fs::path pending_name(const fs::path& path, std::string_view suffix) {
  return folder_of(path) / fmt::format(".{}.{}", path.filename().string(), suffix);
}

// Returns `path`. Throws Error for a device, pipe or socket, which a rename would replace. Outputs
// of commands may not be links to these, such as /dev/stdout; other links are replaced.
fs::path replaceable(fs::path path, FileUse use) {
  std::error_code ignored;
  if (fs::is_other(use == FileUse::output ? fs::status(path, ignored) : fs::symlink_status(path, ignored)))
    throw Error(exit_code_of(use), fmt::format("{}: is a device, pipe or socket, and would be replaced; name "
                                               "another file",
                                               path.string()));
  return path;
}

}  // namespace

AtomicFile::AtomicFile(fs::path path, FileUse use, std::string_view suffix)
    : path_(replaceable(std::move(path), use)),
      pending_(pending_name(path_, suffix)),
      use_(use),
      file_(File::create(pending_, use, path_)) {}

AtomicFile::~AtomicFile() {
  if (!committed_) ::unlink(pending_.c_str());
}

void AtomicFile::write_at(std::int64_t offset, std::span<const std::byte> bytes) {
  file_.write_at(offset, bytes);
  end_ = std::max(end_, offset + std::ssize(bytes));
}

void AtomicFile::commit(bool durable) {
  file_.resize(end_);
  if (durable) file_.sync();
  file_.close();
  rename_file(pending_, path_, use_);
  committed_ = true;
  if (durable) sync_folder(folder_of(path_), use_);
}

void replace_file(const fs::path& path, std::string_view text, FileUse use) {
  AtomicFile file(path, use);
  file.write_at(0, std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace rondo
