// `rondo-worker generate ...`: continues a text with the decoder of training. There is no KV cache:
// each token costs a forward over all previous tokens. n tokens after a prompt of p cost n forwards
// of p + n / 2 tokens on average.
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "apps/worker/whole_model.h"
#include "apps/worker/worker_commands.h"
#include "apps/worker_options.h"
#include "datasets/tokenizer/tokenizer.h"
#include "support/error.h"
#include "support/flags/terminal.h"
#include "support/printable.h"
#include "support/stopwatch.h"

namespace rondo {
namespace {

using Ids = std::vector<std::int32_t>;

Ids prompt_ids(const Tokenizer& tokenizer, const std::string& prompt) {
  Ids ids;
  const auto bos = tokenizer.bos();
  const bool separates = bos && tokenizer.has_eos() && *bos == tokenizer.eos();  // is before a document
  if (bos && (tokenizer.adds_bos() || separates)) ids.push_back(*bos);
  tokenizer.encode(prompt, ids);
  return ids;
}

// Returns the logits of the token after `ids`, without ids that the tokenizer lacks.
std::vector<float> next_logits(const WholeModel& model, std::span<const std::int32_t> ids,
                               std::int64_t vocabulary) {
  const std::vector<std::int64_t> wide(ids.begin(), ids.end());
  const at::Tensor logits_BTV = model.logits(at::tensor(wide, at::kLong).unsqueeze(0));
  const at::Tensor last_V = logits_BTV.select(1, -1).view({-1}).narrow(0, 0, vocabulary).contiguous();
  return {last_V.const_data_ptr<float>(), last_V.const_data_ptr<float>() + vocabulary};
}

// Writes to stdout at once. A terminal gets escaped control characters; anything else gets the raw
// bytes.
class Continuation {
 public:
  void add(const std::string& text) { print(terminal_ ? pieces_.add(text) : text); }
  void end() { print(pieces_.end() + "\n"); }

 private:
  static void print(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  const bool terminal_ = stdout_terminal().is_one;
  PrintablePieces pieces_;
};

}  // namespace

int run_generate(const std::vector<std::string>& args) {
  const auto options = read_generate_options(args);
  if (!options) return 0;
  const std::unique_ptr<Tokenizer> tokenizer =
      load_tokenizer(tokenizer_of(options->model, options->tokenizer));
  StoredModel stored(options->model.folder);
  check_vocabulary(*tokenizer, stored.decoder()->vocabulary());
  std::set<std::int64_t> ends(stored.tokens().eos.begin(), stored.tokens().eos.end());
  if (ends.empty()) ends.insert(tokenizer->eos());

  Ids ids = prompt_ids(*tokenizer, options->prompt);
  const std::int64_t most = std::get<std::int64_t>(stored.sizes().at("max_seq_len"));
  const std::int64_t all = std::ssize(ids) + options->max_new_tokens;
  const std::int64_t window = std::min({options->window == 0 ? most : options->window, most, all});
  const WholeModel model(stored, window, /*gradients=*/false);
  const c10::AutoGradMode no_gradients(false);

  Continuation out;
  std::string text = options->prompt;  // and its continuation, which no tokenizer may take for a beginning
  if (!options->ids) out.add(text);
  const Stopwatch time;
  std::int64_t count = 0;
  while (count < options->max_new_tokens) {
    const std::size_t seen = std::min(ids.size(), static_cast<std::size_t>(window));
    const std::vector<float> logits = next_logits(model, std::span(ids).last(seen), tokenizer->vocab_size());
    const auto id = static_cast<std::int32_t>(choose_token(logits, options->sampling, count++));
    ids.push_back(id);
    const std::size_t shown = text.size();
    if (options->ids)
      text += (count == 1 ? "" : " ") + std::to_string(id);
    else if (!ends.contains(id))
      tokenizer->decode({&id, 1}, text);
    out.add(text.substr(shown));
    if (ends.contains(id)) break;
  }
  out.end();
  const double seconds = time.seconds();
  std::fprintf(stderr, "%lld tokens in %.1f s (%.1f/s)\n", static_cast<long long>(count), seconds,
               static_cast<double>(count) / std::max(seconds, 1e-9));
  return 0;
}

}  // namespace rondo
