// The places and sums of an epoch take seconds for a billion documents, and the border between
// epochs is inside a step. So the next epoch is prepared while the last twentieth of the current
// one is read. Lengths are kept from the first pass, since the index of many files is slow to
// read again.
#include "datasets/stream.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "support/error.h"

namespace rondo {
namespace {

constexpr std::uint32_t kLong = std::numeric_limits<std::uint32_t>::max();

}  // namespace

SampleStream::SampleStream(TokenSource& source, const std::function<bool(std::int64_t document)>& takes,
                           std::int64_t seq_len, std::uint64_t seed, bool shuffle)
    : source_(source),
      seq_len_(seq_len),
      seed_(seed),
      shuffle_(shuffle),
      fingerprint_(stable_hash(source.identity())) {
  constexpr std::int64_t kMaxTokens = std::int64_t{1} << 62;  // a data path may name one file many times
  for (std::int64_t document = 0; document < source.documents(); ++document) {
    if (!takes(document)) continue;
    const std::int64_t tokens = source.tokens(document);
    if (tokens > 0) add(document, tokens, source.id_hash(document));
    if (tokens_per_epoch_ > kMaxTokens)
      throw Error(ExitCode::data, "the data has more than 2^62 tokens. Name fewer files");
  }
}

void SampleStream::add(std::int64_t document, std::int64_t tokens, std::uint64_t id_hash) {
  const bool is_long = tokens >= kLong;
  if (is_long) long_lengths_[static_cast<std::uint32_t>(documents_.size())] = tokens;
  documents_.push_back(static_cast<std::uint32_t>(document));
  lengths_.push_back(is_long ? kLong : static_cast<std::uint32_t>(tokens));
  tokens_per_epoch_ += tokens;
  fingerprint_ = mix64(mix64(fingerprint_ ^ id_hash) + static_cast<std::uint64_t>(tokens));
}

std::int64_t SampleStream::length(std::uint32_t place) const {
  return lengths_[place] == kLong ? long_lengths_.at(place) : lengths_[place];
}

SampleStream::Epoch SampleStream::make_epoch(std::int64_t number) const {
  const auto count = static_cast<std::uint32_t>(documents_.size());
  Epoch epoch{number, {}, {}, SamplePermutation(samples_per_epoch(), seed_, number)};
  if (shuffle_) {
    epoch.order = document_order(count, seed_, number);
  } else {
    epoch.order.resize(count);
    std::iota(epoch.order.begin(), epoch.order.end(), 0);
  }
  epoch.begins.reserve(std::size_t{count} + 1);
  epoch.begins.push_back(0);
  for (const std::uint32_t place : epoch.order) epoch.begins.push_back(epoch.begins.back() + length(place));
  return epoch;
}

// Samples are read in ascending order except after a seek, so one epoch is kept.
const SampleStream::Epoch& SampleStream::epoch(std::int64_t number) {
  if (epoch_ && epoch_->number == number) return *epoch_;
  epoch_.reset();
  std::optional<NextEpoch> ready = std::exchange(next_, std::nullopt);
  if (ready && ready->number == number) return epoch_.emplace(ready->epoch.get());
  ready.reset();
  return epoch_.emplace(make_epoch(number));
}

void SampleStream::make_ready(std::int64_t number) {
  if (!next_)
    next_ = NextEpoch{number, std::async(std::launch::async, [=, this] { return make_epoch(number); })};
}

void SampleStream::read_sample(std::int64_t number, std::int64_t* tokens, std::vector<std::int64_t>& starts) {
  const std::int64_t samples = samples_per_epoch();
  const Epoch& current = epoch(number / samples);
  if (number % samples >= samples - samples / 20) make_ready(number / samples + 1);
  const std::int64_t sample = shuffle_ ? current.sample_of(number % samples) : number % samples;
  const std::int64_t first = sample * seq_len_,
                     last = first + seq_len_ + 1;  // tokens [first, last) of the stream

  starts.clear();
  const auto after = std::upper_bound(current.begins.begin(), current.begins.end(), first);
  for (auto place = static_cast<std::size_t>(after - current.begins.begin()) - 1, at = std::size_t{0};
       first + static_cast<std::int64_t>(at) < last; ++place) {
    const std::int64_t document = documents_[current.order[place]];
    const std::int64_t from = first + static_cast<std::int64_t>(at) - current.begins[place];
    const std::int64_t to = std::min(current.begins[place + 1], last) - current.begins[place];
    if (from == 0) starts.push_back(static_cast<std::int64_t>(at));
    source_.read(document, from, to, tokens + at);
    at += static_cast<std::size_t>(to - from);
  }
}

}  // namespace rondo
