#include <fmt/format.h>

#include "apps/model_source.h"
#include "apps/worker_options.h"
#include "config/derived/paths.h"
#include "support/flags/flags.h"

namespace rondo {
std::optional<ConvertOptions> read_convert_options(const std::vector<std::string>& args) {
  ConvertOptions options;
  auto max_shard_bytes = static_cast<std::int64_t>(options.max_shard_bytes);
  Flags flags(
      "convert",
      "Converts the weights of a checkpoint to a new Hugging Face folder for transformers, or the\nweights "
      "of a Hugging Face folder, bit for bit, to the checkpoint TO/step-0 for\ncheckpoint.initial_load_path.",
      "Exit code: 0 done, 2 usage, 5 FROM is missing, damaged or of another model, 6 TO cannot be written, 9 "
      "disk full.");
  flags.positional("FROM", flag::text(&options.from),
                   "a step-N folder; a run folder or its folder of checkpoints (uses the newest committed "
                   "one); or a Hugging Face folder",
                   Need::required);
  flags.positional("TO", flag::text(&options.to), "the folder to write", Need::required);
  flags.value(
      "--dtype", "NAME",
      flag::one_of(&options.dtype, names_of({Precision::float32, Precision::float16, Precision::bfloat16})),
      "float32, float16 or bfloat16 (default)");
  flags.value("--tokenizer", "bytes|PATH", flag::text(&options.tokenizer),
              "a tokenizer's file, or its folder, copied together with tokenizer_config.json and "
              "special_tokens_map.json (default: the run's)");
  flags.value("--shard-size", "BYTES", flag::amount(&max_shard_bytes, 1),
              "maximum size of a file of weights, such as 500M (default 5G)");
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
        flags.fail(
            {fmt::format("{} applies only to conversion to Hugging Face; a checkpoint keeps the weights as "
                         "they are; remove the flag",
                         flag)});
  return options;
}

}  // namespace rondo
