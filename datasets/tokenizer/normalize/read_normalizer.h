// Reads the normalizer of a tokenizer.json as steps of a Normalizer.
#pragma once

#include <vector>

#include "datasets/tokenizer/normalize/normalizer.h"
#include "support/text/json_view.h"

namespace rondo {

// Reads the types NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace, ByteLevel
// and Sequence. Reports everything else to the view's source.
std::vector<NormalizerStep> read_normalizer(const JsonView& normalizer);

}  // namespace rondo
