// Decides whether text that spells a control token, such as <|endoftext|>, stays text or becomes
// the token (training.special_tokens).
//
// Control tokens are the added tokens of a tokenizer.json that are `special`, and those that
// tokenizer_config.json names as BOS or EOS.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "support/enum_names.h"

namespace rondo {

enum class SpecialTokens : std::uint8_t {
  text,   // ordinary text
  token,  // the control token
};
template <>
inline constexpr auto kNamesOf<SpecialTokens> = std::to_array<std::string_view>({"text", "token"});

}  // namespace rondo
