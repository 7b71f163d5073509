#include "apps/generate_options.h"

#include "support/flags/flags.h"

namespace rondo {

std::optional<GenerateOptions> read_generate_options(const std::vector<std::string>& args) {
  GenerateOptions options;
  std::string path;
  std::int64_t seed = static_cast<std::int64_t>(options.sampling.seed);
  Flags flags(
      "generate",
      "Continues a text: prints the prompt and what the model says next, until its end-of-text token.\n"
      "In fp32 on the CPU, as one rank. The same words give the same text.\n"
      "On a terminal control characters are escaped; a file or a pipe gets the bytes as they are.",
      "Every token costs a forward over all tokens before it, or over the last N with --window N.\n\n"
      "Exit code: 0 done, 2 usage, 4 tokenizer, 5 the checkpoint or the folder is damaged, 8 logits that "
      "are not finite.");
  flags.positional("FROM", flag::text(&path), kModelSource, Need::required);
  flags.value("--prompt", "TEXT", flag::text(&options.prompt), "how the text begins", Need::required);
  flags.value("--max-new-tokens", "N", flag::amount(&options.max_new_tokens, 1), "default 100");
  flags.value("--temperature", "T", flag::number(&options.sampling.temperature, 0),
              "draws tokens, evenly where T is large; 0 (default) takes the likeliest");
  flags.value("--top-k", "K", flag::whole(&options.sampling.top_k, 0),
              "draws from the K likeliest tokens, of equal ones those with the lower ids (default 0: all)");
  flags.value("--top-p", "P", flag::number(&options.sampling.top_p, 0, 1),
              "draws from the fewest likeliest of these that come to this probability (default 1: all)");
  flags.value("--seed", "N", flag::whole(&seed, 0), "of the draws, default 42");
  flags.value("--window", "N", flag::amount(&options.window, 1),
              "how many of the latest tokens the next one is computed from (default: model.max_seq_len)");
  flags.value("--tokenizer", "bytes|PATH", flag::text(&options.tokenizer),
              "default: that of the folder or of the run");
  flags.toggle("--ids", &options.ids, "prints the ids of the new tokens instead of text");
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
