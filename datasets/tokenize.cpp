// Parts depend on the documents alone, and threads take them from an atomic counter, so the output
// does not depend on the number of threads. A part gets its name when it is complete. A later run
// keeps the parts whose checksums hold. Joining copies stored bytes in order and tokenizes nothing.
// Only the byte tokenizer encodes documents in chunks: with any other, a token could cross the
// boundary. The calling thread only waits and reports.
#include "datasets/tokenize.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "datasets/documents/corpus.h"
#include "datasets/documents/order.h"
#include "datasets/token_files/parts_folder.h"
#include "datasets/token_files/rondo_source.h"
#include "support/error.h"
#include "support/machine/core_room.h"
#include "support/text/size_text.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kChunkBytes = std::int64_t{4} << 20;        // of text encoded at once
constexpr std::int64_t kMaxDocumentBytes = std::int64_t{1} << 30;  // of a document encoded as a whole

struct Part {
  std::size_t first, last;  // documents [first, last)
};

// Cuts the documents into parts. The result depends on the documents and `part_bytes` alone.
std::vector<Part> cut_parts(const std::vector<Document>& documents, std::int64_t part_bytes) {
  std::vector<Part> parts;
  std::int64_t bytes = 0;
  for (std::size_t i = 0, first = 0; i < documents.size(); ++i) {
    bytes += documents[i].bytes;
    if (bytes < part_bytes && i + 1 < documents.size()) continue;
    parts.push_back({first, i + 1});
    first = i + 1;
    bytes = 0;
  }
  return parts;
}

// Returns the hash of the inputs; parts of an earlier run count only if theirs is equal.
std::string job_of(const TokenizeOptions& options, const Corpus& corpus, const TokenizerMark& mark) {
  std::uint64_t hash = stable_hash(mark.name) ^ files_hash(options.files);
  const auto mix = [&](std::uint64_t value) { hash = mix64(hash ^ mix64(value)); };
  for (const std::uint64_t value :
       {mark.fingerprint, static_cast<std::uint64_t>(mark.vocab_size),
        static_cast<std::uint64_t>(kTokenVersion), static_cast<std::uint64_t>(options.part_bytes),
        static_cast<std::uint64_t>(mark.ends.begin.value_or(-1)),
        static_cast<std::uint64_t>(mark.ends.end.value_or(-1))})
    mix(value);
  if (mark.special_tokens) mix(stable_hash(name_of(*mark.special_tokens)));
  for (const Document& document : corpus.documents()) {
    mix(document.id_hash);
    mix(static_cast<std::uint64_t>(document.bytes));
  }
  return fmt::format("{:016x}\n", hash);
}

std::vector<SourceFile> text_files(const TokenizeOptions& options) {
  std::vector<SourceFile> files = options.files;
  for (SourceFile& file : files) {
    if (file.as.format == FileFormat::unknown) file.as = recognise(file.path, options.text_key);
    if (is_token_format(file.as.format))
      throw Error(ExitCode::data,
                  fmt::format("{}: is a token file, not text. Leave it out of the input", file.path));
  }
  return files;
}

// Throws before any document is tokenized. The byte tokenizer encodes a document in chunks, unless
// it has escapes.
void check_lengths(const Corpus& corpus, const Tokenizer& tokenizer) {
  const bool in_chunks = dynamic_cast<const ByteTokenizer*>(&tokenizer) != nullptr;
  const Document* longest = nullptr;
  std::int64_t count = 0;
  for (const Document& document : corpus.documents()) {
    const bool whole = !in_chunks || document.stored_bytes > document.bytes;
    if (!whole || document.bytes <= kMaxDocumentBytes) continue;
    ++count;
    if (longest == nullptr || document.bytes > longest->bytes) longest = &document;
  }
  if (count == 0) return;
  throw Error(
      ExitCode::data,
      fmt::format("{}: the document at {} has {} bytes, and at most {} can be tokenized as one; "
                  "documents that are too long: {}. Split them; training.document_separator, or "
                  "--document-separator, splits a text file",
                  corpus.sources()[longest->file].path, place_of(*longest, corpus.sources()[longest->file]),
                  longest->bytes, kMaxDocumentBytes, count));
}

TokenizerMark mark_of(const Tokenizer& tokenizer, const EndNames& ends) {
  std::string name = tokenizer.name();
  if (name.size() > kTokenizerNameBytes)
    throw Error(ExitCode::data,
                fmt::format("the tokenizer's name \"{}\" has more than {} bytes", name, kTokenizerNameBytes));
  TokenizerMark mark{std::move(name), tokenizer.file_hash(), tokenizer.vocab_size(),
                     document_ends(ends, tokenizer)};
  if (!tokenizer.control_tokens().empty()) mark.special_tokens = tokenizer.special_tokens();
  return mark;
}

// Encodes the documents of parts. One per thread.
class PartWriter {
 public:
  PartWriter(const Corpus& corpus, const Tokenizer& tokenizer, const TokenizerMark& mark)
      : corpus_(corpus),
        reader_(corpus.sources(), corpus.text_key()),
        tokenizer_(tokenizer),
        can_cut_(dynamic_cast<const ByteTokenizer*>(&tokenizer) != nullptr),
        mark_(mark) {}

  // Writes the part to `path` and adds to `bytes` and `tokens` as it goes. Returns false, and
  // leaves no file, when `stop` was requested first.
  bool write(const Part& part, const std::string& path, std::stop_token stop,
             std::atomic<std::int64_t>& bytes, std::atomic<std::int64_t>& tokens) {
    TokenFileWriter out(path, mark_, /*durable=*/false);
    for (std::size_t i = part.first; i < part.last; ++i) {
      const Document& document = corpus_.documents()[i];
      append(out, mark_.ends.begin);
      for (std::int64_t begin = 0; begin < document.bytes;) {
        if (stop.stop_requested()) return false;
        const std::int64_t end =
            can_cut(document) ? std::min(begin + kChunkBytes, document.bytes) : document.bytes;
        ids_.clear();
        out.add_spelled(encode(document, reader_.read(document, begin, end)));
        out.append(ids_);
        bytes += end - begin;
        tokens += static_cast<std::int64_t>(ids_.size());
        begin = end;
      }
      append(out, mark_.ends.end);
      tokens += mark_.ends.count();
      out.end_document(document.id_hash);
    }
    out.finish();
    return true;
  }

 private:
  bool can_cut(const Document& document) const { return can_cut_ && document.stored_bytes == document.bytes; }

  std::int64_t encode(const Document& document, std::string_view text) {
    try {
      return tokenizer_.encode(text, ids_);
    } catch (const Error& error) {
      const SourceFile& file = corpus_.sources()[document.file];
      throw Error(error.code(), fmt::format("{}: the document of {} bytes at {}: {}", file.path,
                                            document.bytes, place_of(document, file), error.what()));
    }
  }

  static void append(TokenFileWriter& out, const std::optional<std::int32_t>& id) {
    if (id) out.append({&*id, 1});
  }

  const Corpus& corpus_;
  CorpusReader reader_;
  const Tokenizer& tokenizer_;
  const bool can_cut_;
  const TokenizerMark& mark_;
  std::vector<std::int32_t> ids_;
};

// Returns a part of an earlier run if it is complete, otherwise nullptr.
std::unique_ptr<RondoTokens> open_part(const std::string& path, std::size_t documents) {
  if (!fs::exists(path)) return nullptr;
  try {
    auto part = std::make_unique<RondoTokens>(SourceFile{path, ""}, IdLimit{});
    part->verify();
    if (part->documents() == static_cast<std::int64_t>(documents)) return part;
  } catch (const Error&) {  // damaged: the part is written again
  }
  return nullptr;
}

class Run {
 public:
  Run(const TokenizeOptions& options, const Tokenizer& tokenizer,
      const std::function<void(const TokenizeProgress&)>& report)
      : options_(options),
        tokenizer_(tokenizer),
        report_(report),
        corpus_(text_files(options), options.text_key, options.on_bad_record, options.document_separator),
        mark_(mark_of(tokenizer, options.ends)),
        dropped_before_(tokenizer.dropped()),
        parts_(cut_parts(corpus_.documents(), options.part_bytes)) {
    for (const Document& document : corpus_.documents()) total_bytes_ += document.bytes;
  }

  TokenizeResult run() {
    if (parts_.empty() && !options_.may_be_empty)
      throw Error(
          ExitCode::data,
          fmt::format("data path \"{}\": no document in {} files ({} binary, {} empty)", options_.input,
                      corpus_.files(), corpus_.skipped_binary(), corpus_.skipped_empty()));
    check_lengths(corpus_, tokenizer_);
    PartsFolder folder(options_.output, job_of(options_, corpus_, mark_));
    make_parts(folder);
    TokenizeResult result = {.files = join(folder),
                             .documents = static_cast<std::int64_t>(corpus_.documents().size()),
                             .bytes = total_bytes_,
                             .tokens = tokens_,
                             .kept_parts = kept_parts_,
                             .skipped_binary = corpus_.skipped_binary(),
                             .skipped_empty = corpus_.skipped_empty(),
                             .skipped_bad = corpus_.skipped_bad(),
                             .spelled = spelled_,
                             .dropped = tokenizer_.dropped() - dropped_before_,
                             .warnings = corpus_.warnings()};
    folder.remove();
    return result;
  }

 private:
  void make_parts(const PartsFolder& folder) {
    std::atomic<std::size_t> next = 0;
    std::mutex mutex;
    std::condition_variable one_ended;
    std::exception_ptr failure;
    const int threads = options_.threads > 0 ? options_.threads : core_room().cores;
    std::size_t running = std::min(static_cast<std::size_t>(threads), parts_.size());
    std::stop_source stop;
    std::vector<std::jthread> workers;  // joined before the variables that they use are destroyed
    for (std::size_t i = running; i > 0; --i)
      workers.emplace_back([&] {
        std::exception_ptr error;
        try {
          PartWriter writer(corpus_, tokenizer_, mark_);
          for (std::size_t p;
               (p = next++) < parts_.size() && make_part(folder, p, writer, stop.get_token());) {
          }
        } catch (...) {
          error = std::current_exception();
          stop.request_stop();
        }
        const std::lock_guard lock(mutex);
        if (failure == nullptr) failure = error;
        --running;
        one_ended.notify_one();
      });
    std::unique_lock lock(mutex);
    while (!one_ended.wait_for(lock, std::chrono::milliseconds(200), [&] { return running == 0; }))
      report_progress(false);
    lock.unlock();
    workers.clear();
    if (failure != nullptr) std::rethrow_exception(failure);
    report_progress(false);
  }

  bool make_part(const PartsFolder& folder, std::size_t number, PartWriter& writer, std::stop_token stop) {
    const Part& part = parts_[number];
    if (const auto kept = open_part(folder.part(number), part.last - part.first)) {
      for (std::size_t i = part.first; i < part.last; ++i) kept_bytes_ += corpus_.documents()[i].bytes;
      tokens_ += kept->total_tokens();
      ++kept_parts_;
      return true;
    }
    return writer.write(part, folder.part(number), stop, bytes_, tokens_);
  }

  // Returns the last document of each output file.
  std::vector<std::int64_t> cut_shards(const std::deque<RondoTokens>& parts) const {
    std::vector<std::int64_t> lasts;
    std::int64_t document = 0, tokens = 0;
    for (const RondoTokens& part : parts)
      for (std::int64_t i = 0; i < part.documents(); ++i, ++document) {
        tokens += part.tokens(i);
        if (options_.shard_tokens == 0 || tokens < options_.shard_tokens) continue;
        lasts.push_back(document);
        tokens = 0;
      }
    if (lasts.empty() || lasts.back() != document - 1) lasts.push_back(document - 1);
    return lasts;
  }

  std::vector<std::string> join(const PartsFolder& folder) {
    std::deque<RondoTokens> parts;
    for (std::size_t p = 0; p < parts_.size(); ++p)
      parts.emplace_back(SourceFile{folder.part(p), ""}, IdLimit{});
    const std::vector<std::int64_t> lasts = cut_shards(parts);
    std::vector<std::string> names;
    std::optional<TokenFileWriter> out;
    std::int64_t document = 0;
    report_progress(true);
    if (parts.empty()) TokenFileWriter(names.emplace_back(options_.output), mark_, /*durable=*/true).finish();
    for (const RondoTokens& part : parts) {
      spelled_ += part.spelled();
      for (std::int64_t i = 0; i < part.documents(); ++i, ++document) {
        if (!out) {
          names.push_back(
              shard_name(options_.output, names.size(), options_.shard_tokens == 0 ? 0 : lasts.size()));
          out.emplace(names.back(), mark_, /*durable=*/true);
        }
        copy_document(part, i, *out);
        out->end_document(part.id_hash(i));
        if (i + 1 == part.documents()) out->add_spelled(part.spelled());
        if (document != lasts[names.size() - 1]) continue;
        out->finish();
        out.reset();
      }
      report_progress(true);
    }
    return names;
  }

  static void copy_document(const RondoTokens& part, std::int64_t document, TokenFileWriter& out) {
    const std::int64_t length = part.tokens(document);
    for (std::int64_t begin = 0; begin < length; begin += kChunkBytes) {
      const std::int64_t end = std::min(begin + kChunkBytes, length);
      out.append_stored(part.stored(document, begin, end));
    }
  }

  void report_progress(bool joining) const {
    const std::int64_t kept = kept_bytes_;
    report_({bytes_ + kept, total_bytes_, kept, tokens_, joining});
  }

  const TokenizeOptions& options_;
  const Tokenizer& tokenizer_;
  const std::function<void(const TokenizeProgress&)>& report_;
  const Corpus corpus_;
  const TokenizerMark mark_;
  const std::int64_t dropped_before_;
  const std::vector<Part> parts_;
  std::int64_t total_bytes_ = 0, spelled_ = 0;
  std::atomic<std::int64_t> bytes_ = 0, kept_bytes_ = 0, tokens_ = 0, kept_parts_ = 0;
};

}  // namespace

std::string progress_text(const TokenizeProgress& p, double seconds) {
  const double rate = static_cast<double>(p.bytes - p.kept_bytes) / std::max(seconds, 1e-3);
  std::string text = fmt::format("{} of {}, {} tokens, {}/s", size_text(p.bytes), size_text(p.total_bytes),
                                 p.tokens, size_text(static_cast<std::int64_t>(rate)));
  if (p.joining) return text + ", writing the output";
  if (rate > 0 && p.bytes < p.total_bytes)
    text += fmt::format(", {:.0f} s left", static_cast<double>(p.total_bytes - p.bytes) / rate);
  return text;
}

TokenizeResult tokenize(const TokenizeOptions& options, const Tokenizer& tokenizer,
                        const std::function<void(const TokenizeProgress&)>& report) {
  return Run(options, tokenizer, report).run();
}

}  // namespace rondo
