// Listing reads names, marks, manifests and sizes; only verify() reads shards. Threads take chunks
// from an atomic counter, and each result has its own slot, so the order of problems is
// deterministic. A sample is spread over all shards from the first chunk to the last. It drops the
// kernel's cache before it reads, because a cached page does not show the state of the disk. A
// temporary folder is never a candidate. Any other folder that does not verify is reported
// as skipped.
#include "checkpoint/catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <thread>

#include "checkpoint/committed.h"
#include "checkpoint/files.h"
#include "support/error.h"

namespace rondo::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kVerifyBlockBytes = 1 << 20;
constexpr std::size_t kMaxThreads = 16;
constexpr std::size_t kSampledChunks = 8;

// Returns the manifest of a committed folder. Checks sizes if `depth` requires it, but no
// shard contents.
Manifest checked_manifest(const fs::path& folder, Depth depth) {
  Manifest manifest = read_committed(folder);
  if (depth != Depth::manifest) check_sizes(folder, manifest);
  return manifest;
}

// Returns the entry of a folder, with what is wrong in `why`; nullopt if it was deleted meanwhile.
// Throws when the file system fails, which is not a sign of damage.
std::optional<Entry> entry_of(const fs::path& folder, const FolderName& name, Depth depth) {
  Entry entry{.folder = folder, .step = name.step, .state = State::committed, .why = "", .manifest = {}};
  if (name.is_leftover()) {
    entry.state = State::temp;
    entry.why = name.role == FolderName::Role::temp ? "an unfinished save, or a leftover of one"
                                                    : "a leftover of a deleted checkpoint";
    return entry;
  }
  try {
    if (has_mark(folder)) {
      entry.manifest = checked_manifest(folder, depth);
      return entry;
    }
  } catch (const Error& error) {
    const auto* file_error = dynamic_cast<const FileError*>(&error);
    if (file_error != nullptr && may_pass(file_error->error_number())) throw;
    entry.state = State::damaged;
    entry.why = error.what();
  }
  if (std::error_code ignored; !fs::exists(folder, ignored)) return std::nullopt;
  if (has_mark(folder)) return entry;
  entry.state = State::uncommitted;
  entry.why = fmt::format("it has no {}: its save did not finish, or it is being deleted", kCommittedFile);
  return entry;
}

struct ChunkPlace {
  std::size_t shard;
  std::int64_t chunk;
};

std::vector<ChunkPlace> chunks_to_read(const Manifest& manifest, Depth depth) {
  std::vector<ChunkPlace> chunks;
  for (std::size_t s = 0; s < manifest.shards.size(); ++s)
    for (std::int64_t chunk = 0; chunk < std::ssize(manifest.shards[s].chunks); ++chunk)
      chunks.push_back({s, chunk});
  if (depth == Depth::full || chunks.size() <= kSampledChunks) return chunks;
  std::vector<ChunkPlace> sampled;  // evenly from the first to the last
  for (std::size_t i = 0; i < kSampledChunks; ++i)
    sampled.push_back(chunks[i * (chunks.size() - 1) / (kSampledChunks - 1)]);
  return sampled;
}

// Hashes chunks. One per thread.
class ChunkReader {
 public:
  ChunkReader(const fs::path& folder, const Manifest& manifest, bool from_disk)
      : folder_(folder), manifest_(manifest), from_disk_(from_disk) {}

  // Returns the problem of a chunk, or "".
  std::string problem(const ChunkPlace& place) {
    const Shard& shard = manifest_.shards[place.shard];
    const fs::path path = folder_ / shard.file;
    const std::int64_t begin = place.chunk * kChunkBytes;
    const std::int64_t bytes = std::min(kChunkBytes, shard.bytes - begin);
    ChunkHash found;
    try {
      with_retries([&] { found = hash(path, begin, bytes); });
    } catch (const std::exception& error) {
      return error.what();
    }
    const ChunkHash& expected = shard.chunks[static_cast<std::size_t>(place.chunk)];
    return found == expected ? "" : chunk_problem(path, place.chunk, bytes, found, expected);
  }

 private:
  ChunkHash hash(const fs::path& path, std::int64_t begin, std::int64_t bytes) {
    const File file = File::open(path, kUse);
    if (from_disk_) file.drop_cache();
    ChunkHasher hasher;
    for (std::int64_t done = 0; done < bytes;) {
      const auto block = std::span(buffer_).first(
          static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(buffer_), bytes - done)));
      file.read_at(begin + done, block);
      hasher.add(block);
      done += std::ssize(block);
    }
    return hasher.finish();
  }

  const fs::path& folder_;
  const Manifest& manifest_;
  bool from_disk_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kVerifyBlockBytes);
};

void verify_chunks(const fs::path& folder, const Manifest& manifest, Depth depth, const std::stop_token& stop,
                   Verdict& verdict) {
  const std::vector<ChunkPlace> places = chunks_to_read(manifest, depth);
  std::vector<std::string> problems(places.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    ChunkReader reader(folder, manifest, depth == Depth::sample);
    for (std::size_t i; !stop.stop_requested() && (i = next++) < places.size();)
      problems[i] = reader.problem(places[i]);
  };
  const std::size_t threads =
      std::min({std::max<std::size_t>(std::thread::hardware_concurrency(), 1), kMaxThreads, places.size()});
  {
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < threads; ++i) helpers.emplace_back(work);
    work();
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Shard& shard = manifest.shards[places[i].shard];
    verdict.bytes_read += std::min(kChunkBytes, shard.bytes - places[i].chunk * kChunkBytes);
    if (!problems[i].empty()) verdict.problems.push_back(std::move(problems[i]));
  }
}

}  // namespace

const char* state_name(State state) {
  static constexpr std::array kNames = {"committed", "damaged", "uncommitted", "temp"};
  return kNames[static_cast<std::size_t>(state)];
}

std::vector<Entry> list(const fs::path& root) {
  std::vector<Entry> entries;
  for (const auto& [name, folder] : named_folders(root))
    if (auto entry = entry_of(folder, name, Depth::quick)) entries.push_back(std::move(*entry));
  return entries;
}

Verdict verify(const fs::path& folder, Depth depth, const std::stop_token& stop) {
  Verdict verdict;
  try {
    const Manifest manifest = checked_manifest(folder, depth);
    if (depth > Depth::quick) verify_chunks(folder, manifest, depth, stop, verdict);
  } catch (const Error& error) {
    verdict.problems.push_back(error.what());
  }
  verdict.has_mark = has_mark(folder);
  return verdict;
}

Selection newest_valid(const fs::path& root, Depth depth, const std::vector<fs::path>& except) {
  constexpr int kMaxTries = 10;  // while a run deletes what was listed
  for (int tries = 1;; ++tries) {
    Selection selection;
    bool any_deleted = false;
    for (const auto& [name, folder] : named_folders(root)) {
      if (name.is_leftover() || std::find(except.begin(), except.end(), folder) != except.end()) continue;
      std::optional<Entry> entry = entry_of(folder, name, depth);
      Verdict verdict;
      if (entry && entry->state == State::committed && depth > Depth::quick) verdict = verify(folder, depth);
      any_deleted |= !entry || verdict.is_deleted();
      if (!entry || verdict.is_deleted()) continue;
      if (!verdict.valid()) {
        entry->state = State::damaged;
        entry->why = verdict.problems.front();
      }
      if (entry->state == State::committed) {
        selection.newest = std::move(*entry);
        return selection;
      }
      selection.skipped.push_back({entry->folder, entry->why});
    }
    if (!any_deleted || tries == kMaxTries) return selection;
  }
}

}  // namespace rondo::checkpoint
