// A recursive-descent parser without backtracking. The text may be anything, so growth is bounded: value
// numbers by the length of the text, dimensions by 64, tensors by 2^60 bytes, lists by one level. Results of
// a node stay pending until its operands are read. Rules that need the whole graph are the verifier's.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <unordered_map>

#include "compiler/text/lexer.h"
#include "compiler/text/text.h"

namespace rondo::ir {
namespace {

constexpr std::size_t kMaxDims = 64;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 60;

class Parser : private Lexer {
 public:
  Parser(std::string_view text, std::string_view file_name)
      : Lexer(text, file_name), max_values_(std::max<std::size_t>(text.size(), 65536)) {}

  Graph graph() {
    skip_empty_lines();
    expect_word("graph");
    graph_.name = name("the name of the graph");
    end_of_line();
    while (skip_empty_lines(), pos_ < text_.size()) statement();
    segment(false);
    return std::move(graph_);
  }

 private:
  // Statements

  void statement() {
    if (returned_) fail(pos_, "a statement after return", "the end of the text");
    if (peek() == '%') return node();
    const std::size_t start = pos_;
    const std::string word = name("an input, a phase, a node or return");
    if (peek() == '(') return call(word, {});
    if (word == kReturn) return returns();
    if (word == "block") return block(start);
    if (word == "segment" || word == "eager") return segment(word == "segment"), end_of_line();
    if (const auto kind = input_kind_from_name(word)) return input(*kind);
    for (Phase phase : {Phase::forward, Phase::backward, Phase::update})
      if (word == phase_name(phase)) return place(phase);
    fail(start, fmt::format("unknown statement \"{}\"", word),
         "block, parameter, optimizer, buffer, batch, forward, backward, update, segment, eager, return or a "
         "node");
  }

  void block(std::size_t start) {
    if (!graph_.nodes.empty()) fail(start, "a block below a node", "all blocks above the first node");
    graph_.blocks.push_back(name("the module of the block"));
    end_of_line();
  }

  // A segment begins here, or none does; the one above ends.
  void segment(bool begins) {
    const auto here = static_cast<std::int32_t>(graph_.nodes.size());
    if (in_segment_) graph_.segments.back().end = here;
    if (begins) graph_.segments.push_back({here, here});
    in_segment_ = begins;
  }

  void input(InputKind kind) {
    skip_spaces();
    const std::size_t start = pos_;
    if (!graph_.nodes.empty()) fail(start, "an input below a node", "all inputs above the first node");
    Input input{.name = {}, .kind = kind, .value = definition()};
    input.name = name("the name of the input");
    const int index = static_cast<int>(graph_.inputs.size());
    if (!inputs_.emplace(input.name, index).second)
      fail(start, fmt::format("input \"{}\" stands here a second time", input.name), "unique input names");
    if (kind == InputKind::parameter && take_word("bucket")) input.bucket = name("the name of the bucket");
    graph_.inputs.push_back(std::move(input));
    end_of_line();
  }

  void place(Phase phase) {
    phase_ = phase;
    module_.clear();
    if (!at_end_of_line()) module_ = name("a module path");
    end_of_line();
  }

  void node() {
    std::vector<ValueId> results;
    // Results come to stand only after the operands have been read: a node cannot read its own results.
    do {
      results.push_back(definition());
      defined_[results.back()] = kPending;
      Value& value = graph_.value(results.back());
      for (;;) {
        if (take_word("views")) {
          value.views = use();
        } else if (take_word("writes")) {
          value.writes = use();
        } else {
          break;
        }
      }
    } while (take(','));
    expect('=');
    const std::string op = name("an op");
    if (peek() != '(') fail(pos_, fmt::format("no arguments after {}", op), "'('");
    call(op, std::move(results));
  }

  void call(const std::string& op, std::vector<ValueId> results) {
    Node node{.op = op, .args = {}, .results = {}, .phase = phase_, .module = module_, .origin = {}};
    expect('(');
    if (!take(')')) {
      do node.args.push_back(argument());
      while (take(','));
      expect(')');
    }
    if (take_word("by")) node.origin = name("the name of a pass");
    end_of_line();
    for (ValueId id : results) defined_[id] = kDefined;
    node.results = std::move(results);
    graph_.nodes.push_back(std::move(node));
  }

  void returns() {
    returned_ = true;
    Node node{.op = std::string(kReturn),
              .args = {},
              .results = {},
              .phase = phase_,
              .module = module_,
              .origin = {}};
    if (take_word("by")) node.origin = name("the name of a pass");
    end_of_line();
    while (skip_empty_lines(), pos_ < text_.size()) {
      Output output{.name = name("the name of an output"), .updates = -1};
      expect('=');
      node.args.emplace_back(Use{use()});
      if (take_arrow()) output.updates = updated_input();
      end_of_line();
      graph_.outputs.push_back(std::move(output));
    }
    graph_.nodes.push_back(std::move(node));
  }

  int updated_input() {
    const std::size_t start = pos_;
    const std::string word = name("the name of an input");
    const auto found = inputs_.find(word);
    if (found != inputs_.end()) return found->second;
    fail(start, fmt::format("there is no input \"{}\"", word), "the name of an input of this graph");
  }

  // Values and types

  ValueId value_number() {
    const std::size_t start = pos_;
    if (!take('%')) fail(start, "no value here", "a value such as %3");
    std::size_t id = 0;
    const auto [end, error] = std::from_chars(cursor(), limit(), id);
    if (error != std::errc() || id >= max_values_)
      fail(start, "bad value number", fmt::format("%N with N below {}", max_values_));
    advance_to(end);
    if (id >= graph_.values.size()) {
      graph_.values.resize(id + 1);
      defined_.resize(id + 1, kUndefined);
    }
    return static_cast<ValueId>(id);
  }

  ValueId use() {
    const std::size_t start = pos_;
    const ValueId id = value_number();
    if (defined_[id] != kDefined)
      fail(start, fmt::format("%{} is not defined above", id), "a value that stands above its use");
    return id;
  }

  ValueId definition() {
    const std::size_t start = pos_;
    const ValueId id = value_number();
    if (defined_[id] != kUndefined)
      fail(start, fmt::format("%{} is defined a second time", id), "one definition of each value");
    expect(':');
    graph_.value(id).on_host = take_word("host");
    graph_.value(id).type = type();
    defined_[id] = kDefined;
    return id;
  }

  TensorType type() {
    const std::size_t start = pos_;
    const std::string word = letters();
    const auto dtype = dtype_from_name(word);
    if (!dtype)
      fail(start, fmt::format("unknown dtype \"{}\"", word),
           "f64, f32, bf16, f16, i64, i32, i16, i8, u8 or b8");
    TensorType type{.dtype = *dtype, .sizes = {}, .strides = {}};
    expect('[');
    type.sizes = dimensions(']');
    check_bytes(start, type.sizes, nullptr);
    const bool given = take('{');
    type.strides = given ? dimensions('}') : contiguous_strides(type.sizes);
    if (type.strides.size() != type.sizes.size())
      fail(start, fmt::format("the type has {} sizes and {} strides", type.sizes.size(), type.strides.size()),
           "a stride for each size");
    check_bytes(start, type.sizes, &type.strides);
    return type;
  }

  std::vector<std::int64_t> dimensions(char close) {
    std::vector<std::int64_t> list;
    if (take(close)) return list;
    do {
      const std::size_t start = pos_;
      list.push_back(integer());
      if (list.back() < 0) fail(start, "a negative size or stride", "0 or more");
      if (list.size() > kMaxDims) fail(start, "too many dimensions", "at most 64");
    } while (take(','));
    expect(close);
    return list;
  }

  // The row-major extent of the sizes, or the extent that the strides reach.
  void check_bytes(std::size_t start, const std::vector<std::int64_t>& sizes,
                   const std::vector<std::int64_t>* strides) {
    std::int64_t elements = 1;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::int64_t size = std::max<std::int64_t>(sizes[i], 1);
      std::int64_t reach = 0;
      const bool overflow = strides == nullptr ? __builtin_mul_overflow(elements, size, &elements)
                                               : __builtin_mul_overflow(size - 1, (*strides)[i], &reach) ||
                                                     __builtin_add_overflow(elements, reach, &elements);
      const bool stride_too_large = strides != nullptr && (*strides)[i] > kMaxBytes / 8;
      if (overflow || stride_too_large || elements > kMaxBytes / 8)
        fail(start, "the tensor is too large", "sizes and strides within 2^60 bytes");
    }
  }

  // Arguments

  Argument argument(bool inner = false) {
    skip_spaces();
    const char c = peek();
    // No recursion without end: the text may be anything.
    if (inner && (c == '[' || text_.substr(pos_, 7) == "wrapped"))
      fail(pos_, "an argument too deep", "one level of lists");
    if (c == '%') return Use{use()};
    if (c == '"') return quoted();
    if (c == '[') return list();
    if (c == '.') {
      ++pos_;
      return Symbol{name("a symbol such as .strided")};
    }
    if (is_digit(c) || c == '-') return number();
    return word_argument();
  }

  Argument word_argument() {
    const std::size_t start = pos_;
    const std::string word = letters();
    if (word == "none") return None{};
    if (word == "true") return true;
    if (word == "false") return false;
    if (word == "inf") return std::numeric_limits<double>::infinity();
    if (word == "nan") return nan();
    if (word == "wrapped") return wrapped();
    if (word == "doubles" || word == "bools" || word == "values") {
      expect('[');
      expect(']');
      if (word == "doubles") return std::vector<double>{};
      if (word == "bools") return std::vector<bool>{};
      return UseList{};
    }
    if (const auto dtype = dtype_from_name(word)) return *dtype;
    fail(start, fmt::format("unknown argument \"{}\"", word),
         "a value, number, text, list, dtype, .symbol, wrapped(...) or none");
  }

  Argument nan() {
    if (!take('(')) return std::numeric_limits<double>::quiet_NaN();
    const std::size_t start = pos_;
    std::uint64_t bits = 0;
    if (text_.substr(pos_, 2) == "0x") {
      pos_ += 2;
      const auto [end, error] = std::from_chars(cursor(), limit(), bits, 16);
      if (error == std::errc()) advance_to(end);
    }
    const double x = std::bit_cast<double>(bits);
    if (x == x) fail(start, "these bits are no nan", "the 64 bits of a nan such as 0xfff8000000000000");
    expect(')');
    return x;
  }

  Argument wrapped() {
    expect('(');
    const std::size_t start = pos_;
    const Argument inner = argument(true);
    WrappedNumber wrapped;
    if (const auto* flag = std::get_if<bool>(&inner)) {
      wrapped.number = *flag;
    } else if (const auto* n = std::get_if<std::int64_t>(&inner)) {
      wrapped.number = *n;
    } else if (const auto* x = std::get_if<double>(&inner)) {
      wrapped.number = *x;
    } else {
      fail(start, "wrapped() holds something else", "a number or a bool");
    }
    expect(')');
    return wrapped;
  }

  Argument number() {
    const std::size_t start = pos_;
    if (text_.substr(pos_, 4) == "-inf") {
      pos_ += 4;
      return -std::numeric_limits<double>::infinity();
    }
    std::size_t end = pos_ + 1;
    while (end < text_.size() && (is_digit(text_[end]) || is_letter(text_[end]) || text_[end] == '.' ||
                                  ((text_[end] == '-' || text_[end] == '+') && (text_[end - 1] | 32) == 'e')))
      ++end;
    const std::string_view token = text_.substr(pos_, end - pos_);
    if (token.find_first_of(".eE") == std::string_view::npos) return integer();
    double x = 0;
    const auto [stop, error] = std::from_chars(token.data(), token.data() + token.size(), x);
    if (error != std::errc() || stop != token.data() + token.size())
      fail(start, fmt::format("bad number \"{}\"", token), "a number that a double can hold");
    pos_ = end;
    return x;
  }

  Argument list() {
    expect('[');
    if (take(']')) return std::vector<std::int64_t>{};
    const std::size_t start = pos_;
    const Argument first = argument(true);
    if (std::holds_alternative<std::int64_t>(first))
      return list_of<std::int64_t, std::vector<std::int64_t>>(first);
    if (std::holds_alternative<double>(first)) return list_of<double, std::vector<double>>(first);
    if (std::holds_alternative<bool>(first)) return list_of<bool, std::vector<bool>>(first);
    if (std::holds_alternative<Use>(first) || std::holds_alternative<None>(first)) return use_list(first);
    fail(start, "a list of such elements", "integers, doubles, bools or values");
  }

  template <class Element, class List>
  Argument list_of(const Argument& first) {
    List list{std::get<Element>(first)};
    while (take(',')) {
      const std::size_t start = pos_;
      const Argument next = argument(true);
      if (!std::holds_alternative<Element>(next))
        fail(start, "elements of different kinds", "a list of one kind");
      list.push_back(std::get<Element>(next));
    }
    expect(']');
    return list;
  }

  Argument use_list(const Argument& first) {
    UseList list;
    const auto push = [&](const Argument& arg, std::size_t start) {
      if (const auto* use = std::get_if<Use>(&arg)) {
        list.values.push_back(use->value);
      } else if (std::holds_alternative<None>(arg)) {
        list.values.push_back(kNoValue);
      } else {
        fail(start, "elements of different kinds", "a list of values and none");
      }
    };
    push(first, pos_);
    while (take(',')) {
      const std::size_t start = pos_;
      push(argument(true), start);
    }
    expect(']');
    return list;
  }

  enum State : std::uint8_t { kUndefined, kPending, kDefined };

  std::size_t max_values_;  // bounds memory: a value takes some bytes of text to define
  Graph graph_;
  std::vector<State> defined_;  // for each value
  std::unordered_map<std::string, int> inputs_;
  Phase phase_ = Phase::forward;
  std::string module_;
  bool in_segment_ = false;
  bool returned_ = false;
};

}  // namespace

Graph parse(std::string_view text, std::string_view file_name) { return Parser(text, file_name).graph(); }

}  // namespace rondo::ir
