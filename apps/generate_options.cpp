#include "apps/worker_options.h"
#include "support/flags/flags.h"

namespace rondo {

std::optional<GenerateOptions> read_generate_options(const std::vector<std::string>& args) {
  GenerateOptions options;
  std::string path;
  std::int64_t seed = static_cast<std::int64_t>(options.sampling.seed);
  Flags flags(
      "generate",
      "Continues a text: prints the prompt and the model's continuation up to the end-of-text "
      "token.\nComputes in fp32 on the CPU, as one rank. Equal arguments give equal text.\nA terminal gets "
      "escaped control characters; a file or a pipe gets the raw bytes.",
      "Each token costs a forward over all previous tokens, or over the last N with --window N.\n\nExit "
      "code: 0 done, 2 usage, 4 tokenizer, 5 the checkpoint or the folder is damaged, 8 non-finite logits.");
  flags.positional("FROM", flag::text(&path), kModelSource, Need::required);
  flags.value("--prompt", "TEXT", flag::text(&options.prompt), "prompt", Need::required);
  flags.value("--max-new-tokens", "N", flag::amount(&options.max_new_tokens, 1),
              "maximum number of new tokens (default 100)");
  flags.value("--temperature", "T", flag::number(&options.sampling.temperature, 0),
              "sampling temperature; 0 (default) picks the likeliest token");
  flags.value("--top-k", "K", flag::whole(&options.sampling.top_k, 0),
              "sample from the K likeliest tokens; ties go to lower ids (default 0: all)");
  flags.value("--top-p", "P", flag::number(&options.sampling.top_p, 0, 1),
              "sample from the fewest likeliest of these with total probability P (default 1: all)");
  flags.value("--seed", "N", flag::whole(&seed, 0), "seed of sampling (default 42)");
  flags.value("--window", "N", flag::amount(&options.window, 1),
              "number of latest tokens in the context (default: model.max_seq_len)");
  flags.value("--tokenizer", "bytes|PATH", flag::text(&options.tokenizer),
              "tokenizer (default: the folder's or the run's)");
  flags.toggle("--ids", &options.ids, "print ids of the new tokens instead of text");
  if (!flags.read(args)) return std::nullopt;
  if (options.sampling.temperature == 0)
    for (const char* flag : {"--top-k", "--top-p", "--seed"})
      if (flags.given(flag))
        flags.fail({flags.as_given(flag) + " has no effect without a --temperature above 0"});
  options.sampling.seed = static_cast<std::uint64_t>(seed);
  options.model = find_model(path);
  return options;
}

}  // namespace rondo
