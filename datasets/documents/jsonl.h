// Finds the text in one line of JSONL and undoes its escapes. RFC 8259, except that bytes above 127
// in strings need not be UTF-8, and what Python writes in other fields is accepted: NaN, Infinity,
// -Infinity and halves of surrogate pairs.
// Validates the whole line and builds no tree.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace rondo {

struct JsonError : std::runtime_error {
  JsonError(std::size_t column, const std::string& reason) : std::runtime_error(reason), column(column) {}
  std::size_t column;  // from 1, in bytes
};

// The still escaped value of one field of the line's object.
struct JsonText {
  std::size_t offset = 0;  // of its first byte in the line
  std::size_t stored = 0;  // bytes in the line
  std::size_t bytes = 0;   // bytes of the unescaped text; equal to `stored` if and only if it has no escapes
};

// Returns the value of the field `key`; the last one if there are several. Throws JsonError when
// the line is not a JSON object or has no such string.
JsonText find_json_text(std::string_view line, std::string_view key = "text");

// What a line is: no object, an object, or an object with a string in the field `key`.
enum class JsonLine { invalid, object, has_text };
// `cut`: the line goes on. It is then an object if it is one so far.
JsonLine examine_json_line(std::string_view line, std::string_view key, bool cut);

// Returns whether the text is JSON objects, which may have several lines each. `cut`: the text goes
// on.
bool are_json_objects(std::string_view text, bool cut);

// Returns the keys of a line's object, at most ten, as "a", "b"; "" if it is not an object.
std::string json_keys(std::string_view line);

// Appends the unescaped text of a string's stored bytes. Throws JsonError where they are not valid
// string contents.
void append_unescaped(std::string_view stored, std::string& out);

}  // namespace rondo
