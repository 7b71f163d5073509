#include "trainer/data/stream.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "parallel/error.h"

namespace rondo {

SampleStream::SampleStream(Corpus& corpus, std::vector<Document> documents, const Tokenizer& tokenizer,
                           int64_t seq_len, uint64_t seed, bool shuffle)
    : corpus_(corpus),
      documents_(std::move(documents)),
      tokenizer_(tokenizer),
      seq_len_(seq_len),
      seed_(seed),
      shuffle_(shuffle) {
  RONDO_ASSERT(documents_.size() <= std::numeric_limits<uint32_t>::max(), "more than 2^32 - 1 documents");
  for (const Document& document : documents_) tokens_per_epoch_ += tokens_of(document);
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
    begin += tokens_of(documents_[index]);
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
    const Document& document = documents_[current.order[place]];
    // The part of the document in the window; its place 0 is BOS, the text follows, then EOS.
    const int64_t from = first + static_cast<int64_t>(at) - current.begins[place];
    const int64_t to = std::min(tokens_of(document), last - current.begins[place]);
    int64_t* out = tokens + at;
    if (from == 0) {
      starts.push_back(static_cast<int64_t>(at));
      *out++ = tokenizer_.bos();
    }
    const int64_t begin = std::max<int64_t>(from, 1) - 1, end = std::min(to - 1, document.bytes);
    if (begin < end) {
      append_text(document, begin, end, out);
      out += end - begin;
    }
    if (to == tokens_of(document)) *out++ = tokenizer_.eos();
    at += static_cast<size_t>(to - from);
  }
}

void SampleStream::append_text(const Document& document, int64_t begin, int64_t end, int64_t* tokens) {
  ids_.clear();
  tokenizer_.encode(corpus_.read(document, begin, end), ids_);
  RONDO_ASSERT(static_cast<int64_t>(ids_.size()) == end - begin, "the tokenizer must give one token a byte");
  std::copy(ids_.begin(), ids_.end(), tokens);
}

uint64_t SampleStream::fingerprint() const {
  uint64_t hash = stable_hash(tokenizer_.name());
  for (const Document& document : documents_)
    hash = mix64(mix64(hash ^ document.id_hash) + static_cast<uint64_t>(document.bytes));
  return hash;
}

}  // namespace rondo
