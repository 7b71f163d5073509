// `rondo-worker convert FROM TO`: converts weights between checkpoints and Hugging Face folders.
#include "trainer/resume/convert.h"

#include <cstdio>

#include "apps/worker/worker_commands.h"
#include "apps/worker_options.h"

namespace rondo {

int run_convert(const std::vector<std::string>& args) {
  const auto options = read_convert_options(args);
  if (!options) return 0;
  if (!options->to_hugging_face) {
    const std::filesystem::path folder = import_from_hugging_face(options->from, options->to);
    std::printf("%s\n", folder.c_str());
    return 0;
  }
  export_to_hugging_face(options->from, options->to,
                         {.dtype = value_named<Precision>("--dtype", options->dtype),
                          .tokenizer = options->tokenizer,
                          .max_shard_bytes = options->max_shard_bytes});
  std::printf("%s\n", options->to.c_str());
  return 0;
}

}  // namespace rondo
