// A recursive-descent parser that validates the whole line and builds no tree. It returns the
// offset of the text and its length without escapes. Runs of plain bytes are skipped by a table.
// The depth is limited, since nesting in a file could exhaust the stack. A later field of the same
// name replaces an earlier one, as in other JSON parsers. A key may be escaped, so it is unescaped
// before the comparison.
#include "datasets/documents/jsonl.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "support/utf8.h"

namespace rondo {
namespace {

constexpr int kMaxDepth = 512;  // prevents a stack overflow by hostile nesting

constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (int c = 0x20; c < 256; ++c) plain[static_cast<std::size_t>(c)] = c != '"' && c != '\\';
  return plain;
}();

// Some programs write it at the beginning of a file.
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool is_plain(char c) { return kPlain[static_cast<unsigned char>(c)]; }

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::size_t at() const { return at_; }
  void seek(std::size_t at) { at_ = at; }
  bool ended() const { return at_ >= text_.size(); }
  char peek() const { return ended() ? '\0' : text_[at_]; }
  [[noreturn]] void fail(const std::string& reason) const { throw JsonError(at_ + 1, reason); }

  void skip_space() {
    while (!ended() && (peek() == ' ' || peek() == '\t' || peek() == '\r' || peek() == '\n')) ++at_;
  }

  bool accept(char c) {
    if (ended() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c, const char* where) {
    if (!accept(c)) fail(std::string("expected '") + c + "' " + where);
  }

  // Reads a string and returns its range without the quotes.
  JsonText string(const char* what) {
    expect('"', what);
    JsonText text{at_, 0, 0};
    for (;;) {
      const std::size_t run = at_;
      while (at_ < text_.size() && is_plain(text_[at_])) ++at_;
      text.bytes += at_ - run;
      if (ended()) fail("the string does not end");
      if (peek() == '"') break;
      text.bytes += utf8_length(escape());
    }
    text.stored = at_ - text.offset;
    ++at_;
    return text;
  }

  // Reads an escape and returns its code point.
  char32_t escape() {
    if (!accept('\\')) fail("a control character must be escaped in a string");
    if (ended()) fail("the escape does not end");
    const char kind = text_[at_++];
    switch (kind) {
      case '"':
      case '\\':
      case '/':
        return static_cast<char32_t>(kind);
      case 'b':
        return '\b';
      case 'f':
        return '\f';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'u':
        break;
      default:
        --at_;
        fail("unknown escape in a string");
    }
    const char32_t first = four_hex();
    if (first < 0xd800 || first > 0xdfff || skips_) return first;
    if (first > 0xdbff || !accept('\\') || !accept('u')) fail("half a surrogate pair");
    const char32_t second = four_hex();
    if (second < 0xdc00 || second > 0xdfff) fail("half a surrogate pair");
    return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
  }

  void skip_value(int depth) {
    if (depth > kMaxDepth) fail("nested too deeply");
    switch (peek()) {
      case '{':
        return object(depth, [&](const JsonText&) { skip_value(depth + 1); });
      case '[':
        return skip_array(depth);
      case '"':
        skips_ = true;
        string("before a string");
        skips_ = false;
        return;
      case 't':
        return literal("true");
      case 'f':
        return literal("false");
      case 'n':
        return literal("null");
      case 'N':
        return literal("NaN");
      case 'I':
        return literal("Infinity");
      default:
        number();
    }
  }

  // Calls on_value(key) at every value; the callback must read the value.
  template <class OnValue>
  void object(int depth, const OnValue& on_value) {
    expect('{', "before an object");
    skip_space();
    if (accept('}')) return;
    do {
      skip_space();
      const JsonText key = string("before a key");
      skip_space();
      expect(':', "after a key");
      skip_space();
      on_value(key);
      skip_space();
    } while (accept(','));
    expect('}', "or ',' in an object");
  }

 private:
  void skip_array(int depth) {
    expect('[', "before an array");
    skip_space();
    if (accept(']')) return;
    do {
      skip_space();
      skip_value(depth + 1);
      skip_space();
    } while (accept(','));
    expect(']', "or ',' in an array");
  }

  void literal(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) fail("expected a value");
    at_ += word.size();
  }

  void digits() {
    if (peek() < '0' || peek() > '9') fail("expected a digit");
    while (peek() >= '0' && peek() <= '9') ++at_;
  }

  void number() {
    const bool negative = accept('-');
    if (negative && peek() == 'I') return literal("Infinity");
    if (!negative && (peek() < '0' || peek() > '9')) fail("expected a value");
    if (!accept('0')) digits();
    if (accept('.')) digits();
    if (!accept('e') && !accept('E')) return;
    if (!accept('+')) accept('-');
    digits();
  }

  char32_t four_hex() {
    char32_t code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) fail("\\u needs four hexadecimal digits");
      code = code * 16 + static_cast<char32_t>(digit);
    }
    return code;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool skips_ = false;  // the string is not used, so it may have half a surrogate pair
};

constexpr std::size_t kLongestWord = 8;  // an error is at the beginning of a word that is cut

bool names(std::string_view stored, std::string_view key) {
  if (stored.find('\\') == std::string_view::npos) return stored == key;
  std::string plain;
  append_unescaped(stored, plain);
  return plain == key;
}

}  // namespace

JsonText find_json_text(std::string_view line, std::string_view key) {
  Reader reader(line);
  std::optional<JsonText> text;
  std::size_t not_a_string = 0;
  if (line.starts_with(kByteOrderMark)) reader.seek(kByteOrderMark.size());
  reader.skip_space();
  reader.object(0, [&](const JsonText& name) {
    const bool wanted = names(line.substr(name.offset, name.stored), key);
    if (wanted) text.reset(), not_a_string = 0;
    if (wanted && reader.peek() == '"') {
      text = reader.string("before a string");
      return;
    }
    if (wanted) not_a_string = reader.at() + 1;
    reader.skip_value(1);
  });
  reader.skip_space();
  if (!reader.ended()) reader.fail("text after the object");
  if (not_a_string != 0) throw JsonError(not_a_string, fmt::format("the field \"{}\" is not a string", key));
  if (!text) throw JsonError(1, fmt::format("the object has no field \"{}\"", key));
  return *text;
}

JsonLine examine_json_line(std::string_view line, std::string_view key, bool cut) {
  try {
    find_json_text(line, key);
    return JsonLine::has_text;
  } catch (const JsonError& error) {
    if (cut && error.column + kLongestWord > line.size()) return JsonLine::object;
  }
  try {
    Reader reader(line);
    reader.object(0, [&](const JsonText&) { reader.skip_value(1); });
    reader.skip_space();
    return reader.ended() ? JsonLine::object : JsonLine::invalid;
  } catch (const JsonError&) {
    return JsonLine::invalid;
  }
}

bool are_json_objects(std::string_view text, bool cut) {
  Reader reader(text);
  try {
    for (reader.skip_space(); !reader.ended(); reader.skip_space())
      reader.object(0, [&](const JsonText&) { reader.skip_value(1); });
    return true;
  } catch (const JsonError& error) {
    return cut && error.column + kLongestWord > text.size();
  }
}

std::string json_keys(std::string_view line) {
  constexpr int kMax = 10;
  std::string keys;
  int count = 0;
  try {
    Reader reader(line);
    if (line.starts_with(kByteOrderMark)) reader.seek(kByteOrderMark.size());
    reader.skip_space();
    reader.object(0, [&](const JsonText& key) {
      if (++count <= kMax)
        keys += fmt::format("{}\"{}\"", count > 1 ? ", " : "", line.substr(key.offset, key.stored));
      reader.skip_value(1);
    });
    return keys + (count > kMax ? ", ..." : "");
  } catch (const JsonError&) {
    return "";
  }
}

void append_unescaped(std::string_view stored, std::string& out) {
  Reader reader(stored);
  std::size_t run = 0;
  for (std::size_t i = 0; i < stored.size();) {
    if (is_plain(stored[i])) {
      ++i;
      continue;
    }
    out.append(stored, run, i - run);
    reader.seek(i);
    append_utf8(reader.escape(), out);
    run = i = reader.at();
  }
  out.append(stored, run);
}

}  // namespace rondo
