#include "apps/convert_options.h"

#include <fmt/format.h>

#include "apps/model_source.h"
#include "config/derived/paths.h"
#include "support/flags/flags.h"

namespace rondo {
std::optional<ConvertOptions> read_convert_options(const std::vector<std::string>& args) {
  ConvertOptions options;
  auto max_shard_bytes = static_cast<std::int64_t>(options.max_shard_bytes);
  Flags flags("convert",
              "From a checkpoint: its weights to a new Hugging Face folder, which transformers loads.\n"
              "From a Hugging Face folder: its weights to the checkpoint TO/step-0, bit for bit, which\n"
              "checkpoint.initial_load_path takes.",
              "Exit code: 0 done, 2 usage, 5 FROM is missing, damaged or does not fit, 6 TO cannot be "
              "written, 9 disk full.");
  flags.positional("FROM", flag::text(&options.from),
                   "a step-N folder; a run folder, or its folder of checkpoints, whose newest committed one "
                   "is taken; or a Hugging Face folder",
                   Need::required);
  flags.positional("TO", flag::text(&options.to), "the folder to write", Need::required);
  flags.value(
      "--dtype", "NAME",
      flag::one_of(&options.dtype, names_of({Precision::float32, Precision::float16, Precision::bfloat16})),
      "float32, float16 or bfloat16 (default)");
  flags.value("--tokenizer", "bytes|PATH", flag::text(&options.tokenizer),
              "a tokenizer.json, or a folder with one, which is copied with tokenizer_config.json and "
              "special_tokens_map.json beside it (default: that of the run)");
  flags.value("--shard-size", "BYTES", flag::amount(&max_shard_bytes, 1),
              "what a file of weights holds at most, as in 500M (default 5G)");
  if (!flags.read(args)) return std::nullopt;
  options.max_shard_bytes = static_cast<std::uint64_t>(max_shard_bytes);
  const ModelSource model = find_model(options.from);
  options.to_hugging_face = !model.hugging_face;
  options.from = model.folder;
  if (const auto run = config_of_run(model); run && options.tokenizer.empty())
    options.tokenizer = tokenizer_name(*run);
  if (!options.to_hugging_face)
    for (const char* flag : {"--dtype", "--tokenizer", "--shard-size"})
      if (flags.given(flag))
        flags.fail({fmt::format(
            "{} is of the way to Hugging Face; a checkpoint takes the weights as they are", flag)});
  return options;
}

}  // namespace rondo
