// Reads the pattern into a tree, because a counted repeat emits its operand several times, and
// emits the tree from its end to its beginning, so that each instruction knows its successor.
//
// A possessive repeat of one set never gives a character back. That is a greedy repeat which may
// end only where the next character is not in the set: a look-ahead, which needs no atomic group.
#include "datasets/tokenizer/split/pattern_program.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "support/utf8.h"

namespace rondo {
namespace {

constexpr std::size_t kMaxInstructions = 4096;
constexpr int kMaxNested = 100, kUnlimited = -1, kMaxRepeats = 1000;

struct NoProgram {};

struct PatternNode {
  enum class Kind { empty, set, look, sequence, choice, repeat };
  Kind kind = Kind::empty;
  CodePointSet set = {};             // set, look
  bool negated = false;              // look: the next character is not in `set`, or there is none
  std::vector<PatternNode> of = {};  // sequence, choice; the operand of a repeat
  int least = 0, most = 0;           // repeat
  bool lazy = false, possessive = false;
};

bool may_be_empty(const PatternNode& node) {
  switch (node.kind) {
    case PatternNode::Kind::set:
      return false;
    case PatternNode::Kind::empty:
    case PatternNode::Kind::look:
      return true;
    case PatternNode::Kind::sequence:
      return std::all_of(node.of.begin(), node.of.end(), may_be_empty);
    case PatternNode::Kind::choice:
      return std::any_of(node.of.begin(), node.of.end(), may_be_empty);
    case PatternNode::Kind::repeat:
      return node.least == 0 || may_be_empty(node.of.front());
  }
  return true;
}

// Adds the other characters that a letter of ASCII matches in a case-insensitive group.
CodePointSet folded_letter(char32_t letter) {
  const bool is_letter = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
  CodePointSet set = {{letter, letter}};
  if (!is_letter) return set;
  const char32_t other = letter ^ 0x20, lower = letter | 0x20;
  set = unite(std::move(set), {{other, other}});
  if (lower == 's') set = unite(std::move(set), {{0x17F, 0x17F}});    // LATIN SMALL LETTER LONG S
  if (lower == 'k') set = unite(std::move(set), {{0x212A, 0x212A}});  // KELVIN SIGN
  return set;
}

class PatternReader {
 public:
  explicit PatternReader(std::string_view pattern) : rest_(pattern) {}

  PatternNode run() {
    PatternNode node = choice(false);
    if (!rest_.empty()) throw NoProgram();  // a ')'
    return node;
  }

 private:
  bool accept(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  PatternNode choice(bool caseless) {
    if (++depth_ > kMaxNested) throw NoProgram();
    PatternNode node{.kind = PatternNode::Kind::choice};
    do node.of.push_back(sequence(caseless));
    while (accept("|"));
    --depth_;
    return node.of.size() == 1 ? std::move(node.of.front()) : node;
  }

  PatternNode sequence(bool caseless) {
    PatternNode node{.kind = PatternNode::Kind::sequence};
    while (!rest_.empty() && rest_.front() != '|' && rest_.front() != ')')
      node.of.push_back(repeats(atom(caseless)));
    return node.of.size() == 1 ? std::move(node.of.front()) : node;
  }

  PatternNode repeats(PatternNode node) {
    for (int stacked = 0;; ++stacked) {
      if (stacked == kMaxNested) throw NoProgram();
      PatternNode repeat{.kind = PatternNode::Kind::repeat, .most = kUnlimited};
      if (accept("+"))
        repeat.least = 1;
      else if (accept("?"))
        repeat.most = 1;
      else if (rest_.starts_with('{'))
        interval(repeat);
      else if (!accept("*"))
        return node;
      repeat.lazy = accept("?");
      repeat.possessive = !repeat.lazy && accept("+");
      const bool may_repeat_empty = repeat.least == 0 && repeat.most == 1;
      if (may_be_empty(node) && !may_repeat_empty) throw NoProgram();
      if (repeat.possessive && node.kind != PatternNode::Kind::set) throw NoProgram();
      repeat.of.push_back(std::move(node));
      node = std::move(repeat);
    }
  }

  void interval(PatternNode& repeat) {
    if (!accept("{")) throw NoProgram();
    repeat.least = repeat.most = count();
    if (accept(",")) repeat.most = rest_.starts_with('}') ? kUnlimited : count();
    if (!accept("}") || (repeat.most != kUnlimited && repeat.most < repeat.least)) throw NoProgram();
  }

  int count() {
    int value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value > kMaxRepeats) throw NoProgram();
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  PatternNode atom(bool caseless) {
    if (accept("(?:")) return closed(choice(caseless));
    if (accept("(?i:")) return closed(choice(true));
    if (accept("(?=")) return look(closed(choice(caseless)), false);
    if (accept("(?!")) return look(closed(choice(caseless)), true);
    if (rest_.starts_with("(?") || rest_.starts_with("(*")) throw NoProgram();
    if (accept("(")) return closed(choice(caseless));
    if (accept("[")) return {.kind = PatternNode::Kind::set, .set = members(caseless)};
    return {.kind = PatternNode::Kind::set, .set = character_set(caseless)};
  }

  PatternNode closed(PatternNode node) {
    if (!accept(")")) throw NoProgram();
    return node;
  }

  static PatternNode look(PatternNode node, bool negated) {
    const bool is_empty = node.kind == PatternNode::Kind::sequence && node.of.empty();
    if (is_empty) return negated ? PatternNode{.kind = PatternNode::Kind::set} : PatternNode{};
    if (node.kind != PatternNode::Kind::set) throw NoProgram();
    return {.kind = PatternNode::Kind::look, .set = std::move(node.set), .negated = negated};
  }

  CodePointSet character_set(bool caseless) {
    constexpr std::string_view kSpecial = "*+?{.^$";
    if (kSpecial.find(rest_.front()) != std::string_view::npos) throw NoProgram();
    const char32_t c = character();
    return caseless ? folded_letter(c) : CodePointSet{{c, c}};
  }

  char32_t character() {
    if (rest_.empty()) throw NoProgram();
    if (accept("\\n")) return '\n';
    if (!accept("\\x{")) {
      if (rest_.front() == '\\') throw NoProgram();
      const char32_t c = utf8_character(rest_);
      rest_.remove_prefix(utf8_length(rest_));
      return c;
    }
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value, 16);
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    if (error != std::errc() || !accept("}") || value > 0x10FFFF) throw NoProgram();
    return value;
  }

  // Reads the inside of a class of single characters and ranges, and its ']'.
  CodePointSet members(bool caseless) {
    const bool negated = accept("^");
    CodePointSet set, folded;
    while (!accept("]")) {
      const char32_t first = character(), last = accept("-") ? character() : first;
      if (last < first || (caseless && first != last)) throw NoProgram();
      if (caseless)
        folded = unite(std::move(folded), folded_letter(first));
      else
        set.push_back({first, last});
    }
    if (!std::is_sorted(set.begin(), set.end(), [](auto a, auto b) { return a.last < b.first; }))
      throw NoProgram();
    set = unite(std::move(set), folded);
    return negated ? complement(set) : set;
  }

  std::string_view rest_;
  int depth_ = 0;  // of open groups
};

class ProgramEmitter {
 public:
  PatternProgram run(const PatternNode& node) {
    program_.start = emit(node, push({.kind = PatternInstruction::Kind::match}));
    return std::move(program_);
  }

 private:
  std::int32_t push(PatternInstruction instruction) {
    if (program_.code.size() >= kMaxInstructions) throw NoProgram();
    program_.code.push_back(instruction);
    return static_cast<std::int32_t>(program_.code.size()) - 1;
  }

  std::int32_t index_of(const CodePointSet& set) {
    std::vector<std::pair<char32_t, char32_t>> key;
    for (const CodePointRange& range : set) key.emplace_back(range.first, range.last);
    const auto [place, is_new] =
        indices_.emplace(std::move(key), static_cast<std::int32_t>(program_.sets.size()));
    if (is_new) program_.sets.push_back(set);
    return place->second;
  }

  std::int32_t take(const CodePointSet& set, std::int32_t next) {
    return push({.kind = PatternInstruction::Kind::take, .set = index_of(set), .next = next});
  }

  std::int32_t look(const CodePointSet& set, bool negated, std::int32_t next) {
    return push({.kind = PatternInstruction::Kind::look,
                 .at_end = negated,
                 .set = index_of(negated ? complement(set) : set),
                 .next = next});
  }

  std::int32_t branch(bool lazy, std::int32_t in, std::int32_t out) {
    return push(
        {.kind = PatternInstruction::Kind::branch, .next = lazy ? out : in, .other = lazy ? in : out});
  }

  // Emits `node` and returns where it begins. `next` follows it.
  std::int32_t emit(const PatternNode& node, std::int32_t next) {
    switch (node.kind) {
      case PatternNode::Kind::empty:
        return next;
      case PatternNode::Kind::set:
        return take(node.set, next);
      case PatternNode::Kind::look:
        return look(node.set, node.negated, next);
      case PatternNode::Kind::sequence:
        for (auto part = node.of.rbegin(); part != node.of.rend(); ++part) next = emit(*part, next);
        return next;
      case PatternNode::Kind::choice: {
        std::int32_t first = emit(node.of.back(), next);
        for (auto part = node.of.rbegin() + 1; part != node.of.rend(); ++part)
          first = branch(false, emit(*part, next), first);
        return first;
      }
      case PatternNode::Kind::repeat:
        return repeat(node, next);
    }
    throw NoProgram();
  }

  std::int32_t repeat(const PatternNode& node, std::int32_t next) {
    const PatternNode& operand = node.of.front();
    const std::int32_t out = node.possessive ? look(operand.set, true, next) : next;
    std::int32_t first = next;
    if (node.most == kUnlimited) {
      first = branch(node.lazy, -1, -1);
      const std::int32_t in = emit(operand, first);
      program_.code[first].next = node.lazy ? out : in;
      program_.code[first].other = node.lazy ? in : out;
    }
    for (int i = node.least; i < node.most; ++i) first = branch(node.lazy, emit(operand, first), out);
    for (int i = 0; i < node.least; ++i) first = emit(operand, first);
    return first;
  }

  PatternProgram program_;
  std::map<std::vector<std::pair<char32_t, char32_t>>, std::int32_t> indices_;
};

}  // namespace

std::optional<PatternProgram> pattern_program(std::string_view pcre2_pattern) {
  try {
    const PatternNode node = PatternReader(pcre2_pattern).run();
    if (may_be_empty(node)) return std::nullopt;
    return ProgramEmitter().run(node);
  } catch (const NoProgram&) {
    return std::nullopt;
  }
}

}  // namespace rondo
