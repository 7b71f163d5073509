// The loader's state as JSON. The fingerprint is written in hexadecimal: readers that hold numbers as doubles
// would round it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "support/error.h"
#include "support/text/nearest.h"
#include "trainer/data/loader.h"

namespace rondo {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::vector<std::string>& problems) {
  throw Error(ExitCode::data, fmt::format("{}", fmt::join(problems, "\n")));
}

// Takes fields out of the object and collects what is wrong with them.
class FieldReader {
 public:
  FieldReader(json object, std::string_view origin) : object_(std::move(object)), origin_(origin) {}

  template <class T>
  void number(const char* key, std::int64_t least, T& out) {
    const std::optional<json> value = take(key);
    if (!value) return;
    const bool fits =
        value->is_number_unsigned() &&
        value->get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<T>::max()) &&
        value->get<std::uint64_t>() >= static_cast<std::uint64_t>(least);
    if (!fits) return wrong(key, *value, fmt::format("an integer of at least {}", least));
    out = value->get<T>();
  }

  void boolean(const char* key, bool& out) {
    const std::optional<json> value = take(key);
    if (!value) return;
    if (!value->is_boolean()) return wrong(key, *value, "true or false");
    out = value->get<bool>();
  }

  void hexadecimal(const char* key, std::uint64_t& out) {
    const std::optional<json> value = take(key);
    if (!value) return;
    const std::string text = value->is_string() ? value->get<std::string>() : "";
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, 16);
    if (text.size() != 16 || error != std::errc() || end != text.data() + text.size())
      wrong(key, *value, "16 hexadecimal digits in quotes");
  }

  void finish() {
    for (const auto& [key, value] : object_.items())
      problems_.push_back(fmt::format("{}: unknown key {}{}", origin_, key, did_you_mean(key, known_)));
    if (!problems_.empty()) fail(problems_);
  }

 private:
  std::optional<json> take(const char* key) {
    known_.emplace_back(key);
    const auto it = object_.find(key);
    if (it == object_.end()) {
      problems_.push_back(fmt::format("{}: the key {} is missing", origin_, key));
      return std::nullopt;
    }
    json value = std::move(*it);
    object_.erase(it);
    return value;
  }

  void wrong(const char* key, const json& value, const std::string& rule) {
    constexpr auto kReplace = json::error_handler_t::replace;
    problems_.push_back(
        fmt::format("{}: {} = {} must be {}", origin_, key, value.dump(-1, ' ', false, kReplace), rule));
  }

  json object_;
  std::string_view origin_;
  std::vector<std::string> known_, problems_;
};

}  // namespace

std::string to_json(const DataState& state) {
  const json object = {
      {"step", state.step},       {"sample", state.sample},
      {"seed", state.seed},       {"seq_len", state.seq_len},
      {"shuffle", state.shuffle}, {"fingerprint", fmt::format("{:016x}", state.fingerprint)}};
  return object.dump();
}

DataState data_state_from_json(std::string_view text, std::string_view origin) {
  json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) fail({fmt::format("{}: the data state is not a JSON object", origin)});
  FieldReader fields(std::move(object), origin);
  DataState state;
  fields.number("step", 0, state.step);
  fields.number("sample", 0, state.sample);
  fields.number("seed", 0, state.seed);
  fields.number("seq_len", 1, state.seq_len);
  fields.boolean("shuffle", state.shuffle);
  fields.hexadecimal("fingerprint", state.fingerprint);
  fields.finish();
  return state;
}

void check_same_data(const DataState& saved, const DataState& current) {
  std::vector<std::string> problems;
  const auto compare = [&](const char* field, const auto& then, const auto& now, const char* hint) {
    if (then != now)
      problems.push_back(
          fmt::format("cannot resume the data: {} was {} and is {} now. {}", field, then, now, hint));
  };
  compare("the seed", saved.seed, current.seed, "Set it back, or start a new run");
  compare("the sequence length", saved.seq_len, current.seq_len, "Set it back, or start a new run");
  compare("shuffling", saved.shuffle, current.shuffle, "Set it back, or start a new run");
  compare("the fingerprint of the documents", fmt::format("{:016x}", saved.fingerprint),
          fmt::format("{:016x}", current.fingerprint),
          "Files, their sizes, the weights, the holdout fraction or the tokenizer changed: restore them, or "
          "start a "
          "new run");
  if (!problems.empty()) fail(problems);
}

}  // namespace rondo
