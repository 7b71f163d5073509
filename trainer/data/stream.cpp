#include "trainer/data/stream.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "support/error.h"

namespace rondo {

SampleStream::SampleStream(TokenSource& source, std::vector<uint32_t> documents, int64_t seq_len,
                           uint64_t seed, bool shuffle)
    : source_(source), documents_(std::move(documents)), seq_len_(seq_len), seed_(seed), shuffle_(shuffle) {
  constexpr int64_t kMostTokens = int64_t{1} << 62;  // a data path may name one file many times
  for (const uint32_t document : documents_) {
    tokens_per_epoch_ += source_.tokens(document);
    if (tokens_per_epoch_ > kMostTokens) throw Error(ExitCode::data, "the data has more than 2^62 tokens");
  }
}

const SampleStream::Epoch& SampleStream::epoch(int64_t number) {
  for (const Epoch& known : epochs_)
    if (known.number == number) return known;

  const auto count = static_cast<uint32_t>(documents_.size());
  Epoch made{number, {}, {}, SamplePermutation(samples_per_epoch(), seed_, number)};
  if (shuffle_) {
    made.order = document_order(count, seed_, number);
  } else {
    made.order.resize(count);
    std::iota(made.order.begin(), made.order.end(), 0);
  }
  made.begins.reserve(count);
  int64_t begin = 0;
  for (const uint32_t index : made.order) {
    made.begins.push_back(begin);
    begin += source_.tokens(documents_[index]);
  }
  if (epochs_.size() == 2) epochs_.erase(epochs_.begin());
  return epochs_.emplace_back(std::move(made));
}

void SampleStream::read_sample(int64_t number, int64_t* tokens, std::vector<int64_t>& starts) {
  const int64_t samples = samples_per_epoch();
  const Epoch& current = epoch(number / samples);
  const int64_t sample = shuffle_ ? current.sample_of(number % samples) : number % samples;
  const int64_t first = sample * seq_len_, last = first + seq_len_ + 1;  // of the stream, `last` excluded

  starts.clear();
  const auto after = std::upper_bound(current.begins.begin(), current.begins.end(), first);
  for (auto place = static_cast<size_t>(after - current.begins.begin()) - 1, at = size_t{0};
       first + static_cast<int64_t>(at) < last; ++place) {
    const int64_t document = documents_[current.order[place]];
    const int64_t from = first + static_cast<int64_t>(at) - current.begins[place];
    const int64_t to = std::min(source_.tokens(document), last - current.begins[place]);
    if (from == 0) starts.push_back(static_cast<int64_t>(at));
    source_.read(document, from, to, tokens + at);
    at += static_cast<size_t>(to - from);
  }
}

uint64_t SampleStream::fingerprint() const {
  uint64_t hash = stable_hash(source_.identity());
  for (const uint32_t document : documents_)
    hash = mix64(mix64(hash ^ source_.id_hash(document)) + static_cast<uint64_t>(source_.tokens(document)));
  return hash;
}

}  // namespace rondo
