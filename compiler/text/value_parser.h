// Parses the values, types and arguments of the text form (compiler/text/text.h). The text may be
// anything, so growth is bounded: value numbers by the length of the text, dimensions by 64,
// tensors by 2^60 bytes, and lists by one level.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/text/lexer.h"

namespace rondo::ir {

class ValueParser : protected Lexer {
 public:
  ValueParser(std::string_view text, std::string_view file_name)
      : Lexer(text, file_name), max_values_(std::max<std::size_t>(text.size(), 65536)) {}

 protected:
  static constexpr std::size_t kMaxDims = 64;
  enum State : std::uint8_t { kUndefined, kPending, kDefined };

  ValueId use();
  ValueId definition();
  std::vector<std::int64_t> dimensions(char close);
  // Checks the row-major extent of the sizes, or the extent of the strides.
  void check_bytes(std::size_t start, const std::vector<std::int64_t>& sizes,
                   const std::vector<std::int64_t>* strides);
  Argument argument(bool inner = false);

  Graph graph_;
  std::vector<State> defined_;  // for each value

 private:
  ValueId value_number();
  TensorType type();
  Argument word_argument();
  Argument nan();
  Argument wrapped();
  Argument number();
  Argument list();
  template <class Element>
  Argument list_of(const Argument& first);
  Argument use_list(const Argument& first);

  std::size_t max_values_;  // bounds memory: defining a value takes some bytes of text
};

}  // namespace rondo::ir
