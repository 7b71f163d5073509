#include "trainer/data/stream.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "support/error.h"

namespace rondo {

SampleStream::SampleStream(TokenSource& source, std::vector<std::uint32_t> documents, std::int64_t seq_len,
                           std::uint64_t seed, bool shuffle)
    : source_(source), documents_(std::move(documents)), seq_len_(seq_len), seed_(seed), shuffle_(shuffle) {
  constexpr std::int64_t kMostTokens = std::int64_t{1} << 62;  // a data path may name one file many times
  for (const std::uint32_t document : documents_) {
    tokens_per_epoch_ += source_.tokens(document);
    if (tokens_per_epoch_ > kMostTokens) throw Error(ExitCode::data, "the data has more than 2^62 tokens");
  }
}

const SampleStream::Epoch& SampleStream::epoch(std::int64_t number) {
  for (const Epoch& known : epochs_)
    if (known.number == number) return known;

  const auto count = static_cast<std::uint32_t>(documents_.size());
  Epoch made{number, {}, {}, SamplePermutation(samples_per_epoch(), seed_, number)};
  if (shuffle_) {
    made.order = document_order(count, seed_, number);
  } else {
    made.order.resize(count);
    std::iota(made.order.begin(), made.order.end(), 0);
  }
  // Lengths come out of a file's index in its own order, which is far faster than in the epoch's.
  std::vector<std::int64_t> lengths(count);
  std::transform(documents_.begin(), documents_.end(), lengths.begin(),
                 [&](std::uint32_t document) { return source_.tokens(document); });
  made.begins.reserve(std::size_t{count} + 1);
  made.begins.push_back(0);
  for (const std::uint32_t index : made.order) made.begins.push_back(made.begins.back() + lengths[index]);
  if (epochs_.size() == 2) epochs_.erase(epochs_.begin());
  return epochs_.emplace_back(std::move(made));
}

void SampleStream::read_sample(std::int64_t number, std::int64_t* tokens, std::vector<std::int64_t>& starts) {
  const std::int64_t samples = samples_per_epoch();
  const Epoch& current = epoch(number / samples);
  const std::int64_t sample = shuffle_ ? current.sample_of(number % samples) : number % samples;
  const std::int64_t first = sample * seq_len_,
                     last = first + seq_len_ + 1;  // of the stream, `last` excluded

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

std::uint64_t SampleStream::fingerprint() const {
  std::uint64_t hash = stable_hash(source_.identity());
  for (const std::uint32_t document : documents_)
    hash =
        mix64(mix64(hash ^ source_.id_hash(document)) + static_cast<std::uint64_t>(source_.tokens(document)));
  return hash;
}

}  // namespace rondo
