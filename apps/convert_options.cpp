#include "apps/convert_options.h"

#include <fmt/format.h>

#include <cstdio>

#include "apps/flag_reader.h"
#include "support/error.h"
#include "trainer/checkpoint/catalog.h"
#include "trainer/checkpoint/committed.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHelp =
    "rondo convert CHECKPOINT HF_DIR [flags]   weights of a checkpoint to a new Hugging Face folder\n"
    "rondo convert HF_DIR ROOT                 a Hugging Face folder to the checkpoint ROOT/step-0, bit for "
    "bit\n\n"
    "CHECKPOINT is a step-N folder; of a run folder, or of its folder of checkpoints, the newest valid one "
    "is\n"
    "taken. transformers loads what is written; checkpoint.initial_load_path takes ROOT/step-0.\n\n"
    "  --dtype         float32, float16 or bfloat16 (default)\n"
    "  --tokenizer     folder whose tokenizer.json, tokenizer_config.json and special_tokens_map.json are "
    "copied\n"
    "  --shard-size    bytes a file of weights holds at most, K, M, G or T after it (default 5G)\n\n"
    "Exit code: 0 done, 2 usage, 5 the checkpoint or the folder is damaged or does not fit, 9 disk full.";

fs::path checkpoint_in(const fs::path& folder) {
  if (checkpoint::has_mark(folder)) return folder;
  const fs::path root = fs::is_directory(folder / "checkpoint") ? folder / "checkpoint" : folder;
  const checkpoint::Selection found = checkpoint::newest_valid(root, checkpoint::Depth::quick);
  if (found.newest) return found.newest->folder;
  throw Error(
      ExitCode::checkpoint,
      fmt::format("{} is no Hugging Face folder (no config.json) and holds no valid checkpoint{}",
                  folder.string(), found.skipped.empty() ? std::string() : ": " + found.skipped.front().why));
}

}  // namespace

std::optional<ConvertOptions> read_convert_options(const std::vector<std::string>& args) {
  const FlagReader flags("convert", args, {"--dtype", "--tokenizer", "--shard-size"}, {});
  if (flags.has("--help")) {
    std::puts(kHelp);
    return std::nullopt;
  }
  if (flags.words.size() != 2)
    throw Error(ExitCode::usage, "convert: from where to where? `rondo convert --help` shows the usage");
  ConvertOptions options;
  options.from = flags.words[0];
  options.to = flags.words[1];
  options.dtype = flags.text("--dtype", options.dtype);
  if (options.dtype != "float32" && options.dtype != "float16" && options.dtype != "bfloat16")
    throw Error(ExitCode::usage,
                fmt::format("convert: --dtype {} must be float32, float16 or bfloat16", options.dtype));
  options.tokenizer = flags.text("--tokenizer", "");
  options.max_shard_bytes = static_cast<std::uint64_t>(
      flags.number("--shard-size", 1, static_cast<std::int64_t>(options.max_shard_bytes)));
  if (!fs::is_directory(options.from))
    throw Error(ExitCode::usage, fmt::format("convert: {} is no folder", options.from.string()));
  options.to_hugging_face = !fs::exists(options.from / "config.json");
  if (options.to_hugging_face) options.from = checkpoint_in(options.from);
  if (!options.to_hugging_face)
    for (const char* flag : {"--dtype", "--tokenizer", "--shard-size"})
      if (flags.has(flag))
        throw Error(ExitCode::usage,
                    fmt::format("convert: {} is of the way to Hugging Face; a checkpoint takes the "
                                "weights as they are",
                                flag));
  return options;
}

}  // namespace rondo
