// The flags of `rondo data` that decide what a document is and what is between documents. They have
// the names and the defaults of the keys in [training].
#pragma once

#include <string>

#include "datasets/documents/corpus.h"
#include "datasets/tokenizer/document_ends.h"
#include "datasets/tokenizer/special_tokens.h"
#include "support/enum_names.h"
#include "support/flags/flags.h"

namespace rondo {

struct DocumentFlags {
  std::string text_key = "text", on_bad_record = "stop", special_tokens = "text", separator;
  EndNames ends;

  // Declares the flags. REQUIRES: this object outlives `flags`.
  void add_to(Flags& flags) {
    flags.value("--text-key", "NAME", flag::text(&text_key),
                "JSONL field or column of a document's text (default text)");
    flags.value("--on-bad-record", "stop|skip", flag::one_of(&on_bad_record, names_of<OnBadRecord>()),
                "effect of a line without that field, or of a null (default stop)");
    flags.value(
        "--document-begin", "auto|none|TOKEN", flag::text(&ends.begin),
        "token before each document (default auto: BOS, unless add_bos_token is false or BOS is EOS)");
    flags.value("--document-end", "auto|none|TOKEN", flag::text(&ends.end),
                "token after each document (default auto: EOS)");
    flags.value("--document-separator", "TEXT", flag::text(&separator),
                "text between the documents of a text file, such as <|endoftext|>");
    flags.value("--special-tokens", "text|token", flag::one_of(&special_tokens, names_of<SpecialTokens>()),
                "what text that spells a control token becomes (default text)");
  }

  // Return the values of flags that are enums.
  OnBadRecord bad_record() const { return value_named<OnBadRecord>("--on-bad-record", on_bad_record); }
  SpecialTokens control_tokens() const {
    return value_named<SpecialTokens>("--special-tokens", special_tokens);
  }
};

}  // namespace rondo
