// What `rondo logits` does before LibTorch is loaded: help, flags and token ids.
#include "apps/commands.h"
#include "apps/logits_input.h"

namespace rondo {

bool before_logits(const Arguments& args) {
  const auto options = read_logits_options(args);
  if (!options) return false;
  read_sequences(options->tokens, options->gradients.empty() ? 1 : 2);
  return true;
}

}  // namespace rondo
