#include "datasets/documents/jsonl.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <nlohmann/json.hpp>
#include <optional>

#include "tests/attack/fuzz/mutate.h"

using namespace rondo;

namespace {

// Returns the text of a line, or the column and reason of the error.
std::string text_at(std::string_view line) {
  try {
    const JsonText found = find_json_text(line);
    std::string text;
    append_unescaped(line.substr(found.offset, found.stored), text);
    // The length is known before unescaping. It differs from the stored length exactly when there
    // are escapes.
    REQUIRE(text.size() == found.bytes);
    REQUIRE((found.stored > found.bytes) ==
            (line.substr(found.offset, found.stored).find('\\') != line.npos));
    return text;
  } catch (const JsonError& error) {
    return std::to_string(error.column) + ": " + error.what();
  }
}

// Returns the text by nlohmann's parser; nullopt when it refuses the line or the field is not
// a string.
std::optional<std::string> oracle(const std::string& line) {
  try {
    const auto object = nlohmann::json::parse(line);
    if (!object.is_object() || !object.contains("text") || !object["text"].is_string()) return std::nullopt;
    return object["text"].get<std::string>();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

bool is_ascii(const std::string& line) {
  return std::all_of(line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 128; });
}

const std::vector<std::string> kLines = {
    R"({"text": "plain"})",
    R"({"id": -12.5e-3, "text": "a\n\t\"b\"\\ \u00e9 \u20ac \ud83d\ude00", "meta": {"a": [1, 2, {}], "b": null}})",
    R"(  { "text" : "" , "ok" : [true, false, [], [[0]]] }  )",
    R"({"t\u0065xt": "escaped key", "text2": "no", "url": "http:\/\/x\/y"})",
    R"({"text": "first", "text": "second"})",
};

}  // namespace

TEST_CASE("the named field is the text, and its name may be escaped in the line") {
  const std::string line = R"({"text": "a", "b\u006fdy": "second"})";
  const JsonText found = find_json_text(line, "body");
  CHECK(line.substr(found.offset, found.stored) == "second");
  CHECK_THROWS_WITH(find_json_text(line, "title"), "the object has no field \"title\"");
  CHECK_THROWS_WITH(find_json_text(R"({"title": 3})", "title"), "the field \"title\" is not a string");
}

TEST_CASE("the text of a line is the value of its field text with escapes undone") {
  CHECK(text_at(kLines[0]) == "plain");
  CHECK(text_at(kLines[1]) == "a\n\t\"b\"\\ \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  CHECK(text_at(kLines[2]) == "");
  CHECK(text_at(kLines[3]) == "escaped key");
  CHECK(text_at(kLines[4]) == "second");
}

TEST_CASE("a byte order mark before a line is ignored") {
  CHECK(text_at("\xef\xbb\xbf{\"text\": \"a\"}") == "a");
}

TEST_CASE("bytes that are not UTF-8 pass through a line unchanged") {
  CHECK(text_at("{\"text\": \"\xff\xfe \x80\"}") == "\xff\xfe \x80");
}

TEST_CASE("a malformed line is refused with column and reason") {
  CHECK(text_at("") == "1: expected '{' before an object");
  CHECK(text_at("[1]") == "1: expected '{' before an object");
  CHECK(text_at(R"({"text": "open)") == "15: the string does not end");
  CHECK(text_at(R"({"text" "x"})") == "9: expected ':' after a key");
  CHECK(text_at(R"({"text": "x"} y)") == "15: text after the object");
  CHECK(text_at(R"({"text": "x",})") == "14: expected '\"' before a key");
  CHECK(text_at(R"({"text": "\q"})") == "12: unknown escape in a string");
  CHECK(text_at(R"({"text": "\u12g4"})") == "15: \\u needs four hexadecimal digits");
  CHECK(text_at(R"({"text": "\ud83d!"})") == "17: half a surrogate pair");
  CHECK(text_at(R"({"text": "\ude00"})") == "17: half a surrogate pair");
  CHECK(text_at("{\"text\": \"a\tb\"}") == "12: a control character must be escaped in a string");
  CHECK(text_at(R"({"a": 01, "text": "x"})") == "8: expected '}' or ',' in an object");
  CHECK(text_at(R"({"a": -, "text": "x"})") == "8: expected a digit");
  CHECK(text_at(R"({"a": nul, "text": "x"})") == "7: expected a value");
  CHECK(text_at(std::string(100000, '[')) == "1: expected '{' before an object");
  CHECK(text_at("{\"a\": " + std::string(100000, '[')) == "519: nested too deeply");
}

TEST_CASE("NaN and Infinity are values of other fields, as Python writes them, and no text") {
  CHECK(text_at(R"({"a": NaN, "b": [Infinity, -Infinity], "text": "x"})") == "x");
  CHECK(text_at(R"({"text": NaN})") == "10: the field \"text\" is not a string");
  CHECK(text_at(R"({"a": Nan, "text": "x"})") == "7: expected a value");
  CHECK(text_at(R"({"a": -NaN, "text": "x"})") == "8: expected a digit");
}

TEST_CASE("half a surrogate pair in another field does no harm") {
  CHECK(text_at(R"({"a": "\ud83d", "b": ["\ude00\ud83d\"", {"c": "\ud83d\n"}], "text": "x"})") == "x");
  CHECK(text_at(R"({"text": "\ud83d", "text": "x"})") == "17: half a surrogate pair");
  CHECK(text_at(R"({"a": "\ud83", "text": "x"})") == "13: \\u needs four hexadecimal digits");
}

TEST_CASE("a line is no object, an object, or an object with the text; a cut line is what it is so far") {
  const auto kind = [](std::string_view line, bool cut = false) {
    return examine_json_line(line, "text", cut);
  };
  const std::string line = R"({"a": [1.5, true, {"b": "\u00e9"}], "c": "long"})";
  CHECK(kind(line) == JsonLine::object);
  CHECK(kind(R"({"text": "x"})") == JsonLine::has_text);
  CHECK(kind(R"({"text": null})") == JsonLine::object);
  for (std::size_t end = 1; end < line.size(); ++end) {
    CAPTURE(end);
    CHECK(kind(line.substr(0, end)) == JsonLine::invalid);
    CHECK(kind(line.substr(0, end), true) == JsonLine::object);
  }
  CHECK(kind("{ int main() and a long text that goes on", true) == JsonLine::invalid);
}

TEST_CASE("the keys of an object are listed, up to ten") {
  CHECK(json_keys("\xef\xbb\xbf {\"a b\": 1, \"c\": {\"d\": 2}}") == "\"a b\", \"c\"");
  CHECK(json_keys("{}").empty());
  CHECK(json_keys("{\"a\": 1").empty());
  std::string line = "{\"k\": 0";
  for (int i = 0; i < 10; ++i) line += ", \"k\": 0";
  CHECK(json_keys(line + "}").ends_with("\"k\", ..."));
}

TEST_CASE("a field text that is missing or not a string is refused") {
  CHECK(text_at(R"({"txt": "x"})") == "1: the object has no field \"text\"");
  CHECK(text_at(R"({"text": 7})") == "10: the field \"text\" is not a string");
  CHECK(text_at(R"({"text": null, "a": 1})") == "10: the field \"text\" is not a string");
}

TEST_CASE("20000 random mutations of lines are read as an independent parser reads them") {
  attack::Random random(7);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    const std::string line =
        attack::mutate(kLines[random() % kLines.size()], kLines[random() % kLines.size()], random);
    CAPTURE(line);
    std::optional<std::string> ours;
    try {
      const JsonText found = find_json_text(line);
      REQUIRE(found.offset + found.stored <= line.size());
      std::string text;
      append_unescaped(std::string_view(line).substr(found.offset, found.stored), text);
      REQUIRE(text.size() == found.bytes);
      ours = text;
    } catch (const JsonError& error) {
      REQUIRE(error.column <= line.size() + 1);
    }
    // The oracle refuses bytes that are not UTF-8, and numbers beyond the range of a double; the
    // reader accepts both, and NaN, Infinity and halves of surrogate pairs in other fields.
    const bool python =
        line.find("NaN") != line.npos || line.find("Infinity") != line.npos || line.find("\\ud") != line.npos;
    if (is_ascii(line) && !python &&
        (ours.has_value() == oracle(line).has_value() || line.find_first_of("eE") == line.npos))
      REQUIRE(ours == oracle(line));
    ++(ours ? accepted : refused);
  }
  CHECK(accepted > 1000);
  CHECK(refused > 1000);
}
