// Formats the line by hand, so that keys have a fixed order and doubles their shortest exact form.
// The JSON library only reads. Logs may have millions of lines, so it builds no tree. A number
// always has a point or an exponent, since an integer would lose the sign of zero.
#include "runs/metrics/step_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <type_traits>

#include "support/printable.h"
#include "support/text/json_view.h"

namespace rondo {
namespace {

using nlohmann::json;

[[noreturn]] void malformed(const std::string& what) { throw std::invalid_argument(what); }

double* number_in(StepMetrics& m, std::string_view key) {
  static constexpr std::pair<std::string_view, double StepMetrics::*> kNumbers[] = {
      {"loss", &StepMetrics::loss},
      {"grad_norm", &StepMetrics::grad_norm},
      {"lr", &StepMetrics::lr},
      {"step_time_s", &StepMetrics::step_time_s},
      {"tokens_per_s", &StepMetrics::tokens_per_s},
      {"tflops", &StepMetrics::tflops},
      {"memory_gib", &StepMetrics::memory_gib},
      {"data_wait_fraction", &StepMetrics::data_wait_fraction},
      {"data_wait_s", &StepMetrics::data_wait_s},
      {"progress", &StepMetrics::progress},
  };
  static constexpr std::pair<std::string_view, std::optional<double> StepMetrics::*> kOptional[] = {
      {"mfu", &StepMetrics::mfu},
      {"load_imbalance", &StepMetrics::load_imbalance},
      {"attention_imbalance", &StepMetrics::attention_imbalance},
      {"validation_loss", &StepMetrics::validation_loss},
  };
  for (const auto& [name, member] : kNumbers)
    if (name == key) return &(m.*member);
  for (const auto& [name, member] : kOptional)
    if (name == key) return &(m.*member).emplace();
  return nullptr;
}

// Takes the fields of a line as they are parsed, without a tree of them. Values of unknown keys are
// ignored. A key that is there twice has its last value.
class LineFields : public nlohmann::json_sax<json> {
 public:
  StepMetrics metrics;
  bool has_step = false, has_loss = false, has_grad_norm = false, has_lr = false;
  OverflowMetrics overflow;
  int overflow_keys = 0;  // bits

  bool key(string_t& name) override {
    if (depth_ == 1) key_ = name;
    return true;
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool number_integer(number_integer_t value) override {
    return is_count() ? refuse_count() : number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    std::int64_t* const count = is_field() ? count_in() : nullptr;
    if (count == nullptr) return number(static_cast<double>(value));
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) refuse_count();
    *count = static_cast<std::int64_t>(value);
    return true;
  }
  bool string(string_t& value) override {
    constexpr std::size_t kLongestHash = 64;
    if (!is_field()) return begin_is_object();
    if (key_ == "state_hash") {
      metrics.state_hash = printable(value, kLongestHash);
      return true;
    }
    if (value == "NaN") return number(std::numeric_limits<double>::quiet_NaN());
    if (value == "Infinity") return number(std::numeric_limits<double>::infinity());
    if (value == "-Infinity") return number(-std::numeric_limits<double>::infinity());
    return no_number();
  }
  bool null() override {
    if (is_field() && key_ == "mfu") {
      metrics.mfu.reset();
      return true;
    }
    return is_field() && key_ == "state_hash" ? true : no_number();
  }
  bool boolean(bool) override { return no_number(); }
  bool binary(binary_t&) override { return no_number(); }
  bool start_object(std::size_t) override { return ++depth_ == 1 || nested(); }
  bool start_array(std::size_t) override {
    if (++depth_ == 1) malformed("not a JSON object");
    return nested();
  }
  bool end_object() override { return depth_-- > 0; }
  bool end_array() override { return depth_-- > 0; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    // Removes the library's prefix "[json.exception.parse_error.101] ".
    constexpr std::size_t kLongest = 300;
    const std::string_view text = error.what();
    const std::size_t prefix = text.find("] ");
    malformed(printable(prefix == std::string_view::npos ? text : text.substr(prefix + 2), kLongest));
  }

 private:
  bool is_field() const { return depth_ == 1; }
  bool begin_is_object() const {
    if (depth_ == 0) malformed("not a JSON object");
    return true;
  }
  bool nested() {
    if (depth_ > kMaxNesting) malformed(fmt::format("nested deeper than {}", kMaxNesting));
    if (depth_ > 2) return true;
    --depth_;  // the key of the value
    no_number();
    return ++depth_ > 0;
  }
  std::int64_t* count_in() {
    if (key_ == "step") {
      has_step = true;
      return &metrics.step;
    }
    if (key_ == "tokens_seen") return &metrics.tokens_seen;
    if (key_ == "dropped_tokens") return overflow_keys |= 1, &overflow.dropped_tokens;
    if (key_ == "repeated_steps") return overflow_keys |= 2, &overflow.repeated_steps;
    if (key_ == "skipped_steps") return overflow_keys |= 4, &overflow.skipped_steps;
    return nullptr;
  }
  bool is_count() { return is_field() && count_in() != nullptr; }
  bool refuse_count() const { malformed(fmt::format("\"{}\" must be an integer of at least 0", key_)); }
  bool number(double value) {
    if (!is_field()) return begin_is_object();
    if (is_count()) return refuse_count();
    if (key_ == "state_hash") malformed("\"state_hash\" must be a string");
    double* const to = number_in(metrics, key_);
    if (to == nullptr) return true;
    *to = value;
    has_loss |= to == &metrics.loss;
    has_grad_norm |= to == &metrics.grad_norm;
    has_lr |= to == &metrics.lr;
    return true;
  }
  // Takes a value that is no number: only of unknown keys, or inside of their values.
  bool no_number() {
    if (!is_field()) return begin_is_object();
    if (is_count()) return refuse_count();
    if (key_ == "state_hash") malformed("\"state_hash\" must be a string");
    if (StepMetrics ignored; number_in(ignored, key_) != nullptr)
      malformed(fmt::format("\"{}\" must be a number, \"NaN\", \"Infinity\" or \"-Infinity\"", key_));
    return true;
  }

  std::string key_;
  int depth_ = 0;
};

// Takes a line in the form in which to_json writes it: {"key":1.5,"other":"text","last":null}.
// Returns false for any other, which only the JSON library reads. It is several times as fast.
bool take_plain_line(std::string_view line, LineFields& fields) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t at = 0;
  std::string text;
  const auto starts = [&](std::string_view part) {
    if (!line.substr(at).starts_with(part)) return false;
    at += part.size();
    return true;
  };
  const auto quoted = [&] {  // without escapes
    const std::size_t begin = at + 1, end = begin <= line.size() ? line.find('"', begin) : line.npos;
    if (line.substr(at, 1) != "\"" || end == line.npos) return false;
    text = line.substr(begin, end - begin);
    at = end + 1;
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 127 && c != '\\'; });
  };
  const auto number = [&] {
    const std::string_view all = line.substr(at, line.find_first_of(",}", at) - at);
    const std::string_view digits = all.substr(all.starts_with('-') ? 1 : 0);
    const std::size_t whole = std::min(digits.find_first_of(".e"), digits.size()), after = whole + 1;
    const bool is_whole = whole == digits.size();
    if (digits.empty() || !is_digit(digits[0]) || (digits[0] == '0' && whole > 1) ||
        (is_whole ? all != digits
                  : digits[whole] == '.' && (after == digits.size() || !is_digit(digits[after]))))
      return false;
    at += all.size();
    const auto read = [&](auto value) {
      const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), value);
      if (error != std::errc() || end != all.data() + all.size()) return false;
      if constexpr (std::is_same_v<decltype(value), double>)
        return fields.number_float(value, text);
      else
        return fields.number_unsigned(value);
    };
    return is_whole ? read(std::uint64_t{}) : read(double{});
  };
  if (!starts("{")) return false;
  fields.start_object(0);
  do {
    if (!quoted() || !fields.key(text) || !starts(":")) return false;
    const bool taken = starts("null")               ? fields.null()
                       : line.substr(at, 1) == "\"" ? quoted() && fields.string(text)
                                                    : number();
    if (!taken) return false;
  } while (starts(","));
  return starts("}") && at == line.size();
}

// torchtitan's palette; each code precedes its field.
struct Palette {
  const char *step = "", *loss = "", *grad_norm = "", *memory = "", *tps = "", *flops = "", *reset = "";
};
constexpr Palette kColors = {
    "\033[31m", "\033[32m", "\033[38;2;180;60;0m", "\033[38;2;54;234;195m", "\033[34m",
    "\033[35m", "\033[39m"};

// "-1234567.50" -> "-1,234,567.50"; text without digits ("nan") is unchanged.
std::string with_thousands(std::string digits) {
  const std::size_t first = digits.find_first_of("0123456789");
  if (first == std::string::npos) return digits;
  const std::size_t point = std::min(digits.find('.'), digits.size());
  for (std::size_t at = point; at > first + 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string whole(double value) { return with_thousands(fmt::format("{:.0f}", std::nearbyint(value))); }

std::string memory_field(double memory_gib) {
  return fmt::format("{:.{}f} GiB", memory_gib, memory_gib < 10 ? 2 : 1);
}

std::string flops_field(const StepMetrics& m) {
  if (m.mfu) return fmt::format("mfu {:.1f}%", *m.mfu);
  if (m.tflops < 1) return fmt::format("{:.1f} GFLOP/s", 1000 * m.tflops);
  return with_thousands(fmt::format("{:.1f}", m.tflops)) + " TFLOP/s";
}

std::string overflow_field(const std::optional<OverflowMetrics>& o) {
  if (!o || o->dropped_tokens == 0) return "";
  return fmt::format("  dropped_tokens: {}  repeated_steps: {}  skipped_steps: {}", o->dropped_tokens,
                     o->repeated_steps, o->skipped_steps);
}

std::string eta_field(const ConsoleStyle& style) {
  return style.eta_s ? "  eta " + format_duration(*style.eta_s) : "";
}

}  // namespace

void OverflowMetrics::add(const OverflowMetrics& other) {
  dropped_tokens += other.dropped_tokens;
  repeated_steps += other.repeated_steps;
  skipped_steps += other.skipped_steps;
}

std::string json_number(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  std::string digits = fmt::format("{}", value);
  // A number without point or exponent would be read as an integer, which has no -0.
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return digits;
}

std::string to_json(const StepMetrics& m) {
  std::string line = fmt::format(
      R"({{"step":{},"loss":{},"grad_norm":{},"lr":{},"step_time_s":{},"tokens_per_s":{},"tflops":{},"mfu":{})",
      m.step, json_number(m.loss), json_number(m.grad_norm), json_number(m.lr), json_number(m.step_time_s),
      json_number(m.tokens_per_s), json_number(m.tflops), m.mfu ? json_number(*m.mfu) : "null");
  line += fmt::format(
      R"(,"memory_gib":{},"data_wait_fraction":{},"data_wait_s":{},"tokens_seen":{},"progress":{})",
      json_number(m.memory_gib), json_number(m.data_wait_fraction), json_number(m.data_wait_s), m.tokens_seen,
      json_number(m.progress));
  if (m.load_imbalance) line += fmt::format(R"(,"load_imbalance":{})", json_number(*m.load_imbalance));
  if (m.attention_imbalance)
    line += fmt::format(R"(,"attention_imbalance":{})", json_number(*m.attention_imbalance));
  if (m.overflow)
    line += fmt::format(R"(,"dropped_tokens":{},"repeated_steps":{},"skipped_steps":{})",
                        m.overflow->dropped_tokens, m.overflow->repeated_steps, m.overflow->skipped_steps);
  if (m.validation_loss) line += fmt::format(R"(,"validation_loss":{})", json_number(*m.validation_loss));
  if (m.state_hash) line += fmt::format(R"(,"state_hash":"{}")", *m.state_hash);
  return line + "}";
}

StepMetrics parse_step_metrics(std::string_view text) {
  constexpr std::int64_t kMaxSteps = 1'000'000'000'000;  // of training.steps
  LineFields fields;
  if (!take_plain_line(text, fields)) {
    fields = {};
    json::sax_parse(text, &fields);
  }
  StepMetrics& m = fields.metrics;
  if (!fields.has_step) malformed("\"step\" is missing");
  if (m.step > kMaxSteps) malformed(fmt::format("\"step\" must be at most {}", kMaxSteps));
  for (const auto& [is_there, key] :
       {std::pair{fields.has_loss, "loss"}, {fields.has_grad_norm, "grad_norm"}, {fields.has_lr, "lr"}})
    if (!is_there) malformed(fmt::format("\"{}\" is missing", key));
  if ((fields.overflow_keys & 1) != 0) {
    for (const auto& [bit, key] : {std::pair{2, "repeated_steps"}, {4, "skipped_steps"}})
      if ((fields.overflow_keys & bit) == 0)
        malformed(fmt::format("\"{}\" must be an integer of at least 0", key));
    m.overflow = fields.overflow;
  }
  return std::move(m);
}

std::string console_line(const StepMetrics& m, const ConsoleStyle& style) {
  const Palette color = style.color ? kColors : Palette{};
  return fmt::format("{}step {}  {}loss {:.4f}  {}norm {:.4f}  {}{}  {}{} tps  {}{}{}{}{}", color.step,
                     m.step, color.loss, m.loss, color.grad_norm, m.grad_norm, color.memory,
                     memory_field(m.memory_gib), color.tps, whole(m.tokens_per_s), color.flops,
                     flops_field(m), color.reset, overflow_field(m.overflow), eta_field(style));
}

std::string console_line(const ValidationMetrics& m, const ConsoleStyle& style) {
  const Palette color = style.color ? kColors : Palette{};
  return fmt::format("{}step {}  {}validation loss {:.4f}  {}{}  {}{} tps{}{}", color.step, m.step,
                     color.loss, m.loss, color.memory, memory_field(m.memory_gib), color.tps,
                     whole(m.tokens_per_s), color.reset, eta_field(style));
}

std::string format_duration(double seconds) {
  if (!(seconds >= 0 && seconds < 1e12)) return "?";
  const auto total = static_cast<std::int64_t>(std::llround(seconds));
  const std::int64_t minutes = total / 60, hours = minutes / 60, days = hours / 24;
  if (total < 60) return fmt::format("{}s", total);
  if (minutes < 60) return fmt::format("{}m{:02}s", minutes, total % 60);
  if (hours < 24) return fmt::format("{}h{:02}m", hours, minutes % 60);
  return fmt::format("{}d{:02}h", days, hours % 24);
}

}  // namespace rondo
