// Makes a step from its number alone, so prefetching, resuming and changing the number of ranks
// share one function. One thread prepares the next steps into a bounded queue. seek() stops it,
// clears the queue and starts again. An exception of the thread is stored and rethrown by next(). A
// run that resumes with another global batch keeps its offset in samples, not in steps.
#include "datasets/loader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>

#include "datasets/blend.h"
#include "datasets/documents/content.h"
#include "datasets/documents/files.h"
#include "datasets/documents/order.h"
#include "datasets/open_source.h"
#include "datasets/stream.h"
#include "support/error.h"
#include "support/files/slow_reads.h"
#include "support/log.h"

namespace rondo {
namespace {

constexpr std::chrono::milliseconds kLookAtReads{500};
constexpr std::int64_t kContentBlocks = 256;  // 1 MiB, whatever the size of the data

// Returns the predicate for the documents of the split.
std::function<bool(std::int64_t)> split_of(const TokenSource& source, const DataOptions& options) {
  if (source.documents() > std::numeric_limits<std::uint32_t>::max())
    throw Error(
        ExitCode::data,
        fmt::format("data path \"{}\": {} documents; at most 2^32 - 1 are supported. Name fewer files",
                    options.path, source.documents()));
  const double below = std::ldexp(options.holdout_fraction, 64);
  const bool wants_validation = options.split == Split::validation;
  return [&source, below, wants_validation](std::int64_t document) {
    const bool validation = below > 0 && static_cast<double>(source.id_hash(document)) < below;
    return validation == wants_validation;
  };
}

std::vector<std::string> entries_of(const DataOptions& options) {
  if (options.weights.empty()) return {options.path};
  std::vector<std::string> entries = split_paths(options.path);
  check_weights(options.weights, entries.size());
  return entries;
}

const DataOptions& checked(const DataOptions& options) {
  RONDO_ASSERT(options.seq_len >= 1 && options.local_batch >= 1 && options.accumulation >= 1,
               "sizes are at least 1");
  RONDO_ASSERT(0 <= options.dp_rank && options.dp_rank < options.dp_size, "dp_rank is in [0, dp_size)");
  RONDO_ASSERT(0 <= options.holdout_fraction && options.holdout_fraction < 1,
               "holdout_fraction is in [0, 1)");
  RONDO_ASSERT(0 <= options.context.rank && options.context.rank < options.context.ranks,
               "context.rank is in [0, context.ranks)");
  RONDO_ASSERT(options.num_prefetch_batches >= 0, "num_prefetch_batches is at least 0");
  return options;
}

// One stream of samples from one or more sources.
class SampleReader {
 public:
  SampleReader(const DataOptions& options, bool shuffle, const Tokenizer& tokenizer)
      : entries_(entries_of(options)),
        blend_(options.weights.empty() ? std::vector{1.0} : options.weights),
        entry_by_entry_(options.entry_by_entry) {
    for (std::size_t k = 0; k < entries_.size(); ++k) {
      sources_.push_back(open_source(entries_[k], tokenizer, options.text));
      TokenSource& source = *sources_.back();
      streams_.emplace_back(source, split_of(source, options), options.seq_len, options.seed + k, shuffle);
      if (streams_.back().samples_per_epoch() < 1) fail_too_small(k, options);
    }
  }

  // Returns whether the sample counts. With `one_epoch`, one after the first epoch of its source
  // does not, and a sample of that epoch is read in its place.
  bool read(std::int64_t number, bool one_epoch, std::int64_t* tokens, std::vector<std::int64_t>& starts) {
    const Blend::Place place = entry_by_entry_ ? place_in_order(number) : blend_.place_of(number);
    SampleStream& stream = streams_[static_cast<std::size_t>(place.source)];
    const std::int64_t samples = stream.samples_per_epoch();
    const bool counts = !one_epoch || place.number < samples;
    stream.read_sample(counts ? place.number : place.number % samples, tokens, starts);
    return counts;
  }

  std::uint64_t fingerprint() const {
    if (streams_.size() == 1) return streams_[0].fingerprint();
    std::uint64_t hash = 0;
    for (std::size_t k = 0; k < streams_.size(); ++k)
      hash = mix64(mix64(hash ^ streams_[k].fingerprint()) +
                   static_cast<std::uint64_t>(blend_.samples_in_block(k)));
    return hash;
  }

  std::uint64_t content() const {
    std::uint64_t hash = 0;
    for (std::size_t k = 0; k < sources_.size(); ++k)
      hash = mix64(hash ^ sources_[k]->content(share_of_blocks(kContentBlocks, k, sources_.size())));
    return hash;
  }

  DataSummary summary(std::int64_t global_batch) const {
    DataSummary sum;
    for (std::size_t k = 0; k < streams_.size(); ++k) {
      const SampleStream& stream = streams_[k];
      sum += sources_[k]->counts();
      sum.documents += stream.documents();
      sum.tokens += stream.tokens_per_epoch();
      sum.samples_per_epoch += stream.samples_per_epoch();
      const double share =
          static_cast<double>(blend_.samples_in_block(k)) / static_cast<double>(blend_.block());
      sum.sources.push_back(
          {entries_[k], share,
           static_cast<double>(stream.samples_per_epoch()) / (share * static_cast<double>(global_batch)),
           stream.documents(), stream.tokens_per_epoch(), stream.samples_per_epoch()});
    }
    return sum;
  }

 private:
  Blend::Place place_in_order(std::int64_t number) const {
    std::size_t k = 0;
    for (; k + 1 < streams_.size() && number >= streams_[k].samples_per_epoch(); ++k)
      number -= streams_[k].samples_per_epoch();
    return {static_cast<std::int64_t>(k), number};
  }

  [[noreturn]] void fail_too_small(std::size_t k, const DataOptions& options) const {
    throw Error(
        ExitCode::data,
        fmt::format(
            "data path \"{}\": the {} split has {} tokens in {} of {} documents, and one sample needs "
            "{} (sequence length {} plus one label). Name more text, shorten the sequences, or "
            "change the holdout fraction ({})",
            entries_[k], options.split == Split::train ? "training" : "validation",
            streams_[k].tokens_per_epoch(), streams_[k].documents(), sources_[k]->documents(),
            options.seq_len + 1, options.seq_len, options.holdout_fraction));
  }

  std::vector<std::string> entries_;
  Blend blend_;
  bool entry_by_entry_;
  std::vector<std::unique_ptr<TokenSource>> sources_;
  std::deque<SampleStream> streams_;
};

void log_sources(const DataSummary& summary) {
  for (const DataSummary::Source& source : summary.sources)
    log_info(fmt::format(
        "data: {:.2f} % of the samples from {}: {} documents, {} tokens, an epoch every {:.1f} steps",
        100 * source.share, source.path, source.documents, source.tokens, source.steps_per_epoch));
}

}  // namespace

class DataLoader::Impl {
 public:
  Impl(const DataOptions& options, const Tokenizer& tokenizer)
      : options_(checked(options)),
        shuffle_(options_.shuffle),
        global_batch_(options_.dp_size * options_.local_batch * options_.accumulation),
        skips_(options_.skips),
        samples_(options_, shuffle_, tokenizer),
        sample_(static_cast<std::size_t>(options_.seq_len) + 1),
        split_(options_.context, options_.seq_len),
        summary_(samples_.summary(global_batch_)),
        fingerprint_(samples_.fingerprint()),
        content_(samples_.content()) {
    if (!options_.weights.empty() && options_.dp_rank == 0 && options_.split == Split::train)
      log_sources(summary_);
  }

  StepBatch next() {
    StepBatch batch = options_.num_prefetch_batches == 0 ? *make_step(step_, {}) : take_prepared();
    ++step_;
    return batch;
  }

  void seek(std::int64_t step) {
    RONDO_ASSERT(step >= 0, "a step is at least 0");
    worker_ = {};  // stops and joins
    prepared_.clear();
    failure_ = nullptr;
    step_ = step;
    before_step_0_ = 0;
    restored_sample_ = 0;
  }

  void restore(const DataState& saved) {
    check_same_data(saved, state());
    seek(saved.step);
    restored_sample_ = saved.sample;
    before_step_0_ = skips_.kept_before(saved.sample) - saved.step * global_batch_;
  }

  void log_skips() const {
    if (options_.skips.empty() || options_.dp_rank != 0) return;
    std::vector<std::string> ahead, behind;
    const auto add = [](std::vector<std::string>& to, std::int64_t first, std::int64_t end) {
      if (first < end) to.push_back(fmt::format("{} to {}", first, end - 1));
    };
    for (const SampleRange& range : skips_.ranges()) {
      add(behind, range.first, std::min(range.end, restored_sample_));
      add(ahead, std::max(range.first, restored_sample_), range.end);
    }
    if (!ahead.empty()) log_info(fmt::format("data: samples {} are left out", fmt::join(ahead, ", ")));
    if (!behind.empty())
      log_info(
          fmt::format("data: training.skip_data_of_steps has no effect on samples {}: the checkpoint read "
                      "them or left them out; checkpoint.load_step goes back to an earlier one",
                      fmt::join(behind, ", ")));
    if (step_ > 0) log_info(fmt::format("data: goes on with sample {}", state().sample));
  }

  DataState state() const {
    return {step_,         skips_.sample_of(before_step_0_ + step_ * global_batch_),
            options_.seed, options_.seq_len,
            shuffle_,      fingerprint_,
            content_};
  }
  const DataSummary& summary() const { return summary_; }

 private:
  // Returns nullopt when `stop` was requested.
  std::optional<StepBatch> make_step(std::int64_t step, std::stop_token stop) {
    StepBatch out;
    out.step = step;
    out.tokens = options_.accumulation * options_.local_batch * options_.seq_len / options_.context.ranks;
    split_.begin();
    for (std::int64_t m = 0; m < options_.accumulation; ++m) {
      const std::int64_t first_row = (m * options_.dp_size + options_.dp_rank) * options_.local_batch;
      Batch& batch = out.microbatches.emplace_back(make_batch());
      for (std::int64_t b = 0; b < options_.local_batch; ++b) {
        if (stop.stop_requested()) return std::nullopt;
        const std::int64_t kept = before_step_0_ + step * global_batch_ + first_row + b;
        const bool counts =
            samples_.read(skips_.sample_of(kept), options_.one_epoch, sample_.data(), starts_);
        fill_row(b, batch);
        if (!counts) clear_labels(b, batch);
      }
      if (options_.document_attention)
        batch.cu_seqlens.resize(batch.tokens.size() + 1, static_cast<std::int32_t>(batch.tokens.size()));
      if (options_.context.ranks > 1) batch = own_part(std::move(batch));
      out.valid_tokens += batch.valid_tokens;
    }
    if (options_.context.ranks > 1) out.attention_imbalance = split_.imbalance();
    return out;
  }

  Batch make_batch() const {
    const auto size = static_cast<std::size_t>(options_.local_batch * options_.seq_len);
    Batch batch;
    batch.tokens.resize(size);
    batch.labels.resize(size);
    batch.positions.resize(size);
    return batch;
  }

  // Copies the sample in sample_ to row b.
  void fill_row(std::int64_t b, Batch& batch) const {
    const std::int64_t T = options_.seq_len, row = b * T;
    std::copy_n(sample_.begin(), T, batch.tokens.begin() + row);
    std::copy_n(sample_.begin() + 1, T, batch.labels.begin() + row);
    batch.valid_tokens += T;

    const auto restart = [&](std::int64_t from, std::int64_t to) {  // begins a sequence at `from`
      for (std::int64_t t = from; t < to; ++t) batch.positions[static_cast<std::size_t>(row + t)] = t - from;
      if (options_.document_attention) batch.cu_seqlens.push_back(static_cast<std::int32_t>(row + from));
    };
    std::int64_t begin = 0;
    for (const std::int64_t start : starts_) {
      if (!options_.document_attention) break;  // the row is one sequence
      // Attention ends with the document, so the next document's BOS cannot be predicted.
      if (start > 0) {
        batch.labels[static_cast<std::size_t>(row + start - 1)] = kIgnoreLabel;
        --batch.valid_tokens;
      }
      if (start == 0 || start == T) continue;
      restart(begin, start);
      begin = start;
    }
    restart(begin, T);
  }

  void clear_labels(std::int64_t b, Batch& batch) const {
    const auto row = batch.labels.begin() + b * options_.seq_len;
    for (auto label = row; label != row + options_.seq_len; ++label)
      batch.valid_tokens -= std::exchange(*label, kIgnoreLabel) != kIgnoreLabel;
  }

  // Returns this rank's tokens of a batch of whole rows.
  Batch own_part(Batch whole) {
    const std::int64_t T = options_.seq_len, own = T / options_.context.ranks;
    Batch part;
    auto next = whole.cu_seqlens.begin();
    for (std::int64_t b = 0; b < options_.local_batch; ++b) {
      std::vector<std::int32_t> begins = {0};
      for (; next != whole.cu_seqlens.end() && *next < (b + 1) * T; ++next)
        if (*next > b * T) begins.push_back(static_cast<std::int32_t>(*next - b * T));
      const std::span<const std::int32_t> places = split_.deal(begins);
      part.key_positions.insert(part.key_positions.end(), places.begin(), places.end());
      for (const std::int32_t place : places.subspan(static_cast<std::size_t>(options_.context.rank * own),
                                                     static_cast<std::size_t>(own))) {
        const auto at = static_cast<std::size_t>(b * T + place);
        part.tokens.push_back(whole.tokens[at]);
        part.labels.push_back(whole.labels[at]);
        part.positions.push_back(whole.positions[at]);
        part.query_positions.push_back(place);
        part.valid_tokens += whole.labels[at] != kIgnoreLabel;
      }
    }
    part.cu_seqlens = std::move(whole.cu_seqlens);
    return part;
  }

  StepBatch take_prepared() {
    if (!worker_.joinable())
      worker_ = std::jthread([this, step = step_](std::stop_token stop) { prepare(stop, step); });
    std::unique_lock lock(mutex_);
    while (!ready_.wait_for(lock, kLookAtReads, [&] { return !prepared_.empty() || failure_ != nullptr; }))
      tell_slow_reads();
    if (prepared_.empty()) std::rethrow_exception(failure_);
    StepBatch batch = std::move(prepared_.front());
    prepared_.pop_front();
    room_.notify_one();
    return batch;
  }

  void prepare(std::stop_token stop, std::int64_t step) {
    try {
      while (std::optional<StepBatch> batch = make_step(step++, stop)) {
        std::unique_lock lock(mutex_);
        const auto limit = static_cast<std::size_t>(options_.num_prefetch_batches);
        if (!room_.wait(lock, stop, [&] { return prepared_.size() < limit; })) return;
        prepared_.push_back(std::move(*batch));
        ready_.notify_one();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      ready_.notify_one();
    }
  }

  const DataOptions options_;
  const bool shuffle_;
  const std::int64_t global_batch_;
  // Kept samples before step 0; not 0 when the global batch or the skips changed on resume.
  std::int64_t before_step_0_ = 0;
  std::int64_t restored_sample_ = 0;  // DataState::sample that this run resumes from
  const SampleSkips skips_;
  // The next three members are used by the thread that makes steps.
  SampleReader samples_;
  std::vector<std::int64_t> sample_, starts_;
  ContextSplit split_;
  const DataSummary summary_;
  const std::uint64_t fingerprint_, content_;
  std::int64_t step_ = 0;  // the step that next() returns next

  std::mutex mutex_;  // guards prepared_ and failure_
  std::condition_variable ready_;
  std::condition_variable_any room_;
  std::deque<StepBatch> prepared_;
  std::exception_ptr failure_;
  std::jthread worker_;  // last member: it is joined before the members that it uses are destroyed
};

DataLoader::DataLoader(const DataOptions& options, const Tokenizer& tokenizer)
    : impl_(std::make_unique<Impl>(options, tokenizer)) {}
DataLoader::~DataLoader() = default;

StepBatch DataLoader::next() { return impl_->next(); }
void DataLoader::seek(std::int64_t step) { impl_->seek(step); }
DataState DataLoader::state() const { return impl_->state(); }
const DataSummary& DataLoader::summary() const { return impl_->summary(); }

void DataLoader::restore(const DataState& saved) { impl_->restore(saved); }
void DataLoader::log_skips() const { impl_->log_skips(); }

}  // namespace rondo
