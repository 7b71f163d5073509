#include "trainer/data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "parallel/error.h"
#include "trainer/data/corpus.h"
#include "trainer/data/order.h"
#include "trainer/data/stream.h"

namespace rondo {
namespace {

bool is_validation(const Document& document, double holdout_fraction) {
  return static_cast<double>(document.id_hash) < std::ldexp(holdout_fraction, 64);
}

std::vector<Document> documents_of_split(const Corpus& corpus, const DataOptions& options) {
  std::vector<Document> documents;
  for (const Document& document : corpus.documents())
    if (is_validation(document, options.holdout_fraction) == (options.split == Split::validation))
      documents.push_back(document);
  return documents;
}

const DataOptions& checked(const DataOptions& options) {
  RONDO_ASSERT(options.seq_len >= 1 && options.local_batch >= 1 && options.accumulation >= 1,
               "sizes are at least 1");
  RONDO_ASSERT(0 <= options.dp_rank && options.dp_rank < options.dp_size, "dp_rank is in [0, dp_size)");
  RONDO_ASSERT(0 <= options.holdout_fraction && options.holdout_fraction < 1,
               "holdout_fraction is in [0, 1)");
  RONDO_ASSERT(options.num_prefetch_batches >= 0, "num_prefetch_batches is at least 0");
  return options;
}

}  // namespace

class DataLoader::Impl {
 public:
  Impl(DataOptions options, const Tokenizer& tokenizer)
      : options_(checked(options)),
        shuffle_(options_.shuffle && options_.split == Split::train),
        global_batch_(options_.dp_size * options_.local_batch * options_.accumulation),
        corpus_(options_.path),
        stream_(corpus_, documents_of_split(corpus_, options_), tokenizer, options_.seq_len, options_.seed,
                shuffle_),
        sample_(static_cast<size_t>(options_.seq_len) + 1) {
    if (stream_.samples_per_epoch() < 1) fail_too_small();
    summary_ = {corpus_.files(),
                stream_.documents(),
                stream_.tokens_per_epoch(),
                stream_.samples_per_epoch(),
                corpus_.skipped_hidden(),
                corpus_.skipped_binary(),
                corpus_.skipped_special(),
                corpus_.skipped_empty()};
    fingerprint_ = stream_.fingerprint();
  }

  StepBatch next() {
    StepBatch batch = options_.num_prefetch_batches == 0 ? *make_step(step_, {}) : take_prepared();
    ++step_;
    return batch;
  }

  void seek(int64_t step) {
    RONDO_ASSERT(step >= 0, "a step is at least 0");
    worker_ = {};  // stops and joins
    prepared_.clear();
    failure_ = nullptr;
    step_ = step;
  }

  DataState state() const {
    return {step_, options_.seed, options_.seq_len, global_batch_, shuffle_, fingerprint_};
  }
  const DataSummary& summary() const { return summary_; }

 private:
  [[noreturn]] void fail_too_small() const {
    throw Error(
        ExitCode::data,
        fmt::format(
            "data path \"{}\": the {} split has {} tokens in {} of {} documents, and one sample needs "
            "{} (sequence length {} and one label more). Name more text, shorten the sequences, or "
            "change the holdout fraction ({})",
            options_.path, options_.split == Split::train ? "training" : "validation",
            stream_.tokens_per_epoch(), stream_.documents(), corpus_.documents().size(), options_.seq_len + 1,
            options_.seq_len, options_.holdout_fraction));
  }

  // Nothing when `stop` was asked for.
  std::optional<StepBatch> make_step(int64_t step, std::stop_token stop) {
    StepBatch out;
    out.step = step;
    out.tokens = options_.accumulation * options_.local_batch * options_.seq_len;
    for (int64_t m = 0; m < options_.accumulation; ++m) {
      const int64_t first_row = (m * options_.dp_size + options_.dp_rank) * options_.local_batch;
      Batch& batch = out.microbatches.emplace_back(make_batch());
      for (int64_t b = 0; b < options_.local_batch; ++b) {
        if (stop.stop_requested()) return std::nullopt;
        stream_.read_sample(step * global_batch_ + first_row + b, sample_.data(), starts_);
        fill_row(b, batch);
      }
      if (options_.document_attention)
        batch.cu_seqlens.resize(batch.tokens.size() + 1, static_cast<int32_t>(batch.tokens.size()));
      out.valid_tokens += batch.valid_tokens;
    }
    return out;
  }

  Batch make_batch() const {
    const auto size = static_cast<size_t>(options_.local_batch * options_.seq_len);
    Batch batch;
    batch.tokens.resize(size);
    batch.labels.resize(size);
    batch.positions.resize(size);
    return batch;
  }

  // The sample that was read last becomes row b.
  void fill_row(int64_t b, Batch& batch) const {
    const int64_t T = options_.seq_len, row = b * T;
    std::copy_n(sample_.begin(), T, batch.tokens.begin() + row);
    std::copy_n(sample_.begin() + 1, T, batch.labels.begin() + row);
    batch.valid_tokens += T;

    const auto restart = [&](int64_t from, int64_t to) {  // a sequence begins at `from`
      for (int64_t t = from; t < to; ++t) batch.positions[static_cast<size_t>(row + t)] = t - from;
      if (options_.document_attention) batch.cu_seqlens.push_back(static_cast<int32_t>(row + from));
    };
    int64_t begin = 0;
    for (const int64_t start : starts_) {
      // Where attention ends with the document, nothing foretells the next one's BOS.
      if (options_.document_attention && start > 0) {
        batch.labels[static_cast<size_t>(row + start - 1)] = kIgnoreLabel;
        --batch.valid_tokens;
      }
      if (start == 0 || start == T) continue;
      restart(begin, start);
      begin = start;
    }
    restart(begin, T);
  }

  StepBatch take_prepared() {
    if (!worker_.joinable())
      worker_ = std::jthread([this, step = step_](std::stop_token stop) { prepare(stop, step); });
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return !prepared_.empty() || failure_ != nullptr; });
    if (prepared_.empty()) std::rethrow_exception(failure_);
    StepBatch batch = std::move(prepared_.front());
    prepared_.pop_front();
    room_.notify_one();
    return batch;
  }

  void prepare(std::stop_token stop, int64_t step) {
    try {
      while (std::optional<StepBatch> batch = make_step(step++, stop)) {
        std::unique_lock lock(mutex_);
        const auto limit = static_cast<size_t>(options_.num_prefetch_batches);
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
  const int64_t global_batch_;
  Corpus corpus_;        // these four belong to the
  SampleStream stream_;  // thread that makes steps
  std::vector<int64_t> sample_, starts_;
  DataSummary summary_;
  uint64_t fingerprint_ = 0;
  int64_t step_ = 0;  // that next() gives next

  std::mutex mutex_;  // guards prepared_ and failure_
  std::condition_variable ready_;
  std::condition_variable_any room_;
  std::deque<StepBatch> prepared_;
  std::exception_ptr failure_;
  std::jthread worker_;  // last: it stops and joins before anything that it uses goes
};

DataLoader::DataLoader(DataOptions options, const Tokenizer& tokenizer)
    : impl_(std::make_unique<Impl>(std::move(options), tokenizer)) {}
DataLoader::~DataLoader() = default;

StepBatch DataLoader::next() { return impl_->next(); }
void DataLoader::seek(int64_t step) { impl_->seek(step); }
DataState DataLoader::state() const { return impl_->state(); }
const DataSummary& DataLoader::summary() const { return impl_->summary(); }

void DataLoader::restore(const DataState& saved) {
  check_same_data(saved, state());
  seek(saved.step);
}

}  // namespace rondo
