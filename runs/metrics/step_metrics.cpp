// Formats the line by hand, so that keys have a fixed order and doubles their shortest exact form.
// The JSON library only reads. A number always has a point or an exponent, since an integer would
// lose the sign of zero.
#include "runs/metrics/step_metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "support/printable.h"
#include "support/text/json_view.h"

namespace rondo {
namespace {

using nlohmann::json;

[[noreturn]] void malformed(const std::string& what) { throw std::invalid_argument(what); }

double number_of(const json& value, const char* key) {
  if (value.is_number()) return value.get<double>();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  malformed(fmt::format("\"{}\" must be a number, \"NaN\", \"Infinity\" or \"-Infinity\"", key));
}

double required_number(const json& line, const char* key) {
  const auto it = line.find(key);
  if (it == line.end()) malformed(fmt::format("\"{}\" is missing", key));
  return number_of(*it, key);
}

double optional_number(const json& line, const char* key) {
  const auto it = line.find(key);
  return it == line.end() ? 0.0 : number_of(*it, key);
}

std::int64_t count_of(const json& value, const char* key) {
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() <= kLargest;
  if (!fits) malformed(fmt::format("\"{}\" must be an integer of at least 0", key));
  return value.get<std::int64_t>();
}

json parse_object(std::string_view line) {
  constexpr std::size_t kLongest = 300;
  if (is_too_deep(line)) malformed(fmt::format("nested deeper than {}", kMaxNesting));
  try {
    json value = json::parse(line);
    if (!value.is_object()) malformed("not a JSON object");
    return value;
  } catch (const json::exception& error) {
    // Removes the library's prefix "[json.exception.parse_error.101] ".
    const std::string_view text = error.what();
    const std::size_t prefix = text.find("] ");
    malformed(printable(prefix == std::string_view::npos ? text : text.substr(prefix + 2), kLongest));
  }
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

constexpr std::int64_t kMaxSteps = 1'000'000'000'000;  // of training.steps

StepMetrics parse_step_metrics(std::string_view text) {
  constexpr std::size_t kLongestHash = 64;
  const json line = parse_object(text);
  StepMetrics m;
  if (!line.contains("step")) malformed("\"step\" is missing");
  m.step = count_of(line["step"], "step");
  if (m.step > kMaxSteps) malformed(fmt::format("\"step\" must be at most {}", kMaxSteps));
  m.loss = required_number(line, "loss");
  m.grad_norm = required_number(line, "grad_norm");
  m.lr = required_number(line, "lr");
  m.step_time_s = optional_number(line, "step_time_s");
  m.tokens_per_s = optional_number(line, "tokens_per_s");
  m.tflops = optional_number(line, "tflops");
  if (line.contains("mfu") && !line["mfu"].is_null()) m.mfu = number_of(line["mfu"], "mfu");
  m.memory_gib = optional_number(line, "memory_gib");
  m.data_wait_fraction = optional_number(line, "data_wait_fraction");
  m.data_wait_s = optional_number(line, "data_wait_s");
  m.progress = optional_number(line, "progress");
  if (line.contains("tokens_seen")) m.tokens_seen = count_of(line["tokens_seen"], "tokens_seen");
  if (line.contains("load_imbalance")) m.load_imbalance = required_number(line, "load_imbalance");
  if (line.contains("attention_imbalance"))
    m.attention_imbalance = required_number(line, "attention_imbalance");
  if (line.contains("dropped_tokens")) {
    const auto count = [&](const char* key) { return count_of(line.value(key, json()), key); };
    m.overflow = {count("dropped_tokens"), count("repeated_steps"), count("skipped_steps")};
  }
  if (line.contains("validation_loss")) m.validation_loss = required_number(line, "validation_loss");
  if (const auto hash = line.find("state_hash"); hash != line.end() && !hash->is_null()) {
    if (!hash->is_string()) malformed("\"state_hash\" must be a string");
    m.state_hash = printable(hash->get<std::string>(), kLongestHash);
  }
  return m;
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
