// A key is resolved alone where a token file is checked, because a token file needs no EOS. "auto"
// of one end depends on the other end only where both name the same token.
#include "datasets/tokenizer/document_ends.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "support/error.h"
#include "support/text/nearest.h"

namespace rondo {
namespace {

struct End {
  const char *key, *flag, *place;
};
constexpr End kBegin = {"training.document_begin", "--document-begin", "before"};
constexpr End kEnd = {"training.document_end", "--document-end", "after"};

// Quotes text that is not one word of a line. An id that the tokenizer lacks may come from a file.
std::string shown_token(std::int32_t id, const Tokenizer& tokenizer) {
  if (id >= tokenizer.vocab_size()) return fmt::to_string(id);
  const std::string text = tokenizer.text_of(id);
  const bool is_word = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) > ' ';
  });
  return is_word ? text : fmt::format("{:?}", text);
}

// REQUIRES: `name` is not "auto".
std::optional<std::int32_t> named_token(const End& end, const std::string& name, const Tokenizer& tokenizer) {
  if (name == "none") return std::nullopt;
  if (const auto id = tokenizer.id_of(name)) return id;
  std::vector<std::string> candidates = {"auto", "none"};
  if (const auto bos = tokenizer.bos()) candidates.push_back(tokenizer.text_of(*bos));
  if (tokenizer.has_eos()) candidates.push_back(tokenizer.text_of(tokenizer.eos()));
  for (const std::int32_t id : tokenizer.control_tokens()) candidates.push_back(tokenizer.text_of(id));
  throw Error(ExitCode::data,
              fmt::format("{} = \"{}\" (or {}) is not one token of the tokenizer {}{}. Name one of its "
                          "tokens, \"none\" or \"auto\"",
                          end.key, name, end.flag, tokenizer.name(), did_you_mean(name, candidates)));
}

void check_end(const std::string& place, const End& end, const std::optional<std::int32_t>& stored,
               const std::string& name, const Tokenizer& tokenizer) {
  if (name == "auto" || named_token(end, name, tokenizer) == stored) return;
  throw Error(
      ExitCode::data,
      fmt::format("{}: has {} {} each document, but {} is \"{}\". Set it to \"auto\", which reads "
                  "token files as they are, or tokenize the text again",
                  place, stored ? shown_token(*stored, tokenizer) : "nothing", end.place, end.key, name));
}

}  // namespace

DocumentEnds document_ends(const EndNames& names, const Tokenizer& tokenizer) {
  DocumentEnds ends;
  if (names.begin != "auto") ends.begin = named_token(kBegin, names.begin, tokenizer);
  if (names.end != "auto") {
    ends.end = named_token(kEnd, names.end, tokenizer);
  } else if (ends.begin != tokenizer.eos()) {
    ends.end = tokenizer.eos();
  }
  if (names.begin == "auto" && tokenizer.adds_bos() && tokenizer.bos() != ends.end)
    ends.begin = tokenizer.bos();
  return ends;
}

bool is_standard(const DocumentEnds& ends, const Tokenizer& tokenizer) {
  return ends ==
         DocumentEnds{tokenizer.bos(), tokenizer.has_eos() ? std::optional(tokenizer.eos()) : std::nullopt};
}

void check_ends(const std::string& place, const DocumentEnds& stored, const EndNames& names,
                const Tokenizer& tokenizer) {
  check_end(place, kBegin, stored.begin, names.begin, tokenizer);
  check_end(place, kEnd, stored.end, names.end, tokenizer);
}

std::string shown(const DocumentEnds& ends, const Tokenizer* tokenizer) {
  const auto token = [&](std::int32_t id) {
    return tokenizer == nullptr ? fmt::to_string(id) : shown_token(id, *tokenizer);
  };
  if (ends.count() == 0) return "text, nothing between documents";
  return fmt::format("{}text{}", ends.begin ? token(*ends.begin) + " " : "",
                     ends.end ? " " + token(*ends.end) : "");
}

std::string shown(SpecialTokens special_tokens, std::int64_t spelled) {
  return fmt::format("text that spells a control token {} ({} such)",
                     special_tokens == SpecialTokens::text ? "stays text" : "becomes it", spelled);
}

}  // namespace rondo
