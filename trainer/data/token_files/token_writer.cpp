#include "trainer/data/token_files/token_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "support/error.h"
#include "support/files/shortage.h"

namespace rondo {
namespace {

constexpr size_t kBufferBytes = size_t{4} << 20;
constexpr int64_t kIdsIn2Bytes = 1 << 16;

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

template <class T>
void widen_range(const std::byte* ids, size_t count, TokenFileHeader& header) {
  T least = std::numeric_limits<T>::max(), greatest = 0;
  for (size_t i = 0; i < count; ++i) {
    T id;
    std::memcpy(&id, ids + i * sizeof id, sizeof id);
    least = std::min(least, id);
    greatest = std::max(greatest, id);
  }
  header.least_id = std::min<uint32_t>(header.least_id, least);
  header.greatest_id = std::max<uint32_t>(header.greatest_id, greatest);
}

}  // namespace

TokenFileWriter::TokenFileWriter(std::string path, const TokenizerMark& mark, bool durable)
    : path_(std::move(path)), durable_(durable), hash_(XXH3_createState()) {
  const std::filesystem::path target(path_);
  pending_ = folder_of(target) / fmt::format(".{}.part", target.filename().string());
  RONDO_ASSERT(mark.name.size() <= kTokenizerNameBytes, "the name of a tokenizer is at most 176 bytes");
  std::memcpy(header_.magic, kTokenMagic, sizeof header_.magic);
  header_.version = kTokenVersion;
  header_.token_bytes = mark.vocab_size <= kIdsIn2Bytes ? 2 : 4;
  header_.bos = mark.bos;
  header_.eos = mark.eos;
  header_.least_id = std::numeric_limits<uint32_t>::max();
  header_.tokenizer_fingerprint = mark.fingerprint;
  std::memcpy(header_.tokenizer, mark.name.data(), mark.name.size());
  XXH3_64bits_reset(hash_.get());
  buffer_.reserve(kBufferBytes);
  fd_ = ::open(pending_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("open", errno);
}

TokenFileWriter::~TokenFileWriter() {
  if (fd_ >= 0) ::close(fd_);
  if (!finished_) ::unlink(pending_.c_str());
}

void TokenFileWriter::append(std::span<const int32_t> ids) {
  if (header_.token_bytes == 4) return append_stored(std::as_bytes(ids));
  narrow_.resize(ids.size());
  uint32_t all = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    narrow_[i] = static_cast<uint16_t>(ids[i]);
    all |= static_cast<uint32_t>(ids[i]);
  }
  RONDO_ASSERT(all < kIdsIn2Bytes, "the tokenizer gave an id outside its vocabulary");
  append_stored(std::as_bytes(std::span(narrow_)));
}

void TokenFileWriter::append_stored(std::span<const std::byte> ids) {
  const size_t count = ids.size() / header_.token_bytes;
  if (header_.token_bytes == 2) {
    widen_range<uint16_t>(ids.data(), count, header_);
  } else {
    widen_range<uint32_t>(ids.data(), count, header_);
  }
  XXH3_64bits_update(hash_.get(), ids.data(), ids.size());
  put(ids.data(), ids.size());
  header_.tokens += count;
}

void TokenFileWriter::end_document(uint64_t id_hash) {
  ends_.push_back(header_.tokens);
  id_hashes_.push_back(id_hash);
}

void TokenFileWriter::finish() {
  RONDO_ASSERT(header_.tokens == (ends_.empty() ? 0 : ends_.back()), "a document is still open");
  constexpr std::byte kZeros[8] = {};
  const uint64_t token_bytes = header_.tokens * header_.token_bytes;
  put(kZeros, static_cast<size_t>((8 - token_bytes % 8) % 8));
  header_.tokens_hash = XXH3_64bits_digest(hash_.get());

  XXH3_64bits_reset(hash_.get());
  for (const std::vector<uint64_t>* part : {&ends_, &id_hashes_}) {
    XXH3_64bits_update(hash_.get(), part->data(), part->size() * sizeof(uint64_t));
    put(part->data(), part->size() * sizeof(uint64_t));
  }
  header_.index_hash = XXH3_64bits_digest(hash_.get());
  flush();

  header_.documents = ends_.size();
  if (header_.tokens == 0) header_.least_id = 0;
  header_.header_hash = XXH3_64bits(&header_, offsetof(TokenFileHeader, header_hash));
  write_at(0, &header_, sizeof header_);
  if (durable_ && ::fsync(fd_) != 0) fail("sync", errno);
  if (::close(std::exchange(fd_, -1)) != 0) fail("close", errno);
  if (::rename(pending_.c_str(), path_.c_str()) != 0) fail("rename", errno);
  finished_ = true;
  if (!durable_) return;
  const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = folder >= 0 && ::fsync(folder) == 0;
  const int error_number = errno;
  if (folder >= 0) ::close(folder);
  if (!synced) fail("sync the folder of", error_number);
}

void TokenFileWriter::put(const void* bytes, size_t count) {
  const auto* from = static_cast<const std::byte*>(bytes);
  if (buffer_.size() + count > kBufferBytes) flush();
  if (count > kBufferBytes) {
    write_at(written_, from, count);
    written_ += static_cast<int64_t>(count);
  } else {
    buffer_.insert(buffer_.end(), from, from + count);
  }
}

void TokenFileWriter::flush() {
  write_at(written_, buffer_.data(), buffer_.size());
  written_ += static_cast<int64_t>(buffer_.size());
  buffer_.clear();
}

void TokenFileWriter::write_at(int64_t offset, const void* bytes, size_t count) {
  const auto* from = static_cast<const char*>(bytes);
  for (size_t done = 0; done < count;) {
    const ssize_t put = ::pwrite(fd_, from + done, count - done, offset + static_cast<int64_t>(done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("write", errno);
    if (put == 0) fail("write", ENOSPC);
    done += static_cast<size_t>(put);
  }
}

void TokenFileWriter::fail(const char* doing, int error_number) const {
  const bool shortage = is_shortage(error_number);
  throw Error(shortage ? ExitCode::resources : ExitCode::environment,
              fmt::format("cannot {} {}: {}; {}", doing, path_, std::strerror(error_number),
                          shortage ? "free space, then give the same command again"
                                   : "check its folder and permissions, or choose another output"));
}

}  // namespace rondo
