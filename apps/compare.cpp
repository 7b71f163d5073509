// `rondo compare RUN_A RUN_B [--json] [--tolerance REL]`. Results go to stdout.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "support/error.h"
#include "support/text/nearest.h"
#include "trainer/metrics/compare_runs.h"

namespace rondo {
namespace {

using nlohmann::ordered_json;

constexpr const char* kHelp =
    "rondo compare RUN_A RUN_B [--json] [--tolerance REL]\n\n"
    "Compares two run folders: loss, grad_norm, lr and state_hash of every step, bit for bit.\n"
    "Then speed (medians after the first tenth of the lines), memory and configuration.\n\n"
    "  --tolerance REL  loss and grad_norm may differ by this much relatively; hashes are not compared\n"
    "  --json           one JSON object instead of text\n\n"
    "Exit code: 0 equal, 1 different, 2 usage, 4 a run folder is missing or damaged.";

struct CompareOptions {
  std::vector<std::string> folders;
  std::optional<double> tolerance;
  bool json = false;
  bool help = false;
};

[[noreturn]] void misused(const std::string& what) {
  throw Error(ExitCode::usage, what + "; usage: rondo compare RUN_A RUN_B [--json] [--tolerance REL]");
}

double parse_tolerance(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value) || value < 0)
    misused(fmt::format("compare: --tolerance \"{}\" must be a number of at least 0, such as 1e-5", text));
  return value;
}

CompareOptions parse(const Arguments& args) {
  CompareOptions options;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& word = args[i];
    if (word == "--json") {
      options.json = true;
    } else if (word == "--help" || word == "-h") {
      options.help = true;
    } else if (word == "--tolerance") {
      if (++i == args.size()) misused("compare: --tolerance needs a number");
      options.tolerance = parse_tolerance(args[i]);
    } else if (word.rfind("--tolerance=", 0) == 0) {
      options.tolerance = parse_tolerance(word.substr(word.find('=') + 1));
    } else if (word.size() > 1 && word[0] == '-') {
      misused(fmt::format("compare: unknown flag {}{}", word,
                          did_you_mean(word, {"--json", "--tolerance", "--help"})));
    } else {
      options.folders.push_back(word);
    }
  }
  if (!options.help && options.folders.size() != 2)
    misused(fmt::format("compare: two run folders are needed, got {}", options.folders.size()));
  return options;
}

std::string verdict_text(const Comparison& c, std::optional<double> tolerance) {
  std::string text;
  if (const auto& d = c.first_difference) {
    text = fmt::format("different: step {} is the first that differs, in {}: A {}, B {}", d->step,
                       d->quantity, d->a, d->b);
    if (!std::isnan(d->relative)) text += fmt::format(" (relative difference {:.3g})", d->relative);
    text += "\n";
  } else if (c.shared_steps == 0) {
    text = "different: the runs share no step\n";
  } else {
    const std::string measure =
        tolerance ? fmt::format("within a relative tolerance of {:g}", *tolerance) : "bit for bit";
    text = fmt::format("{}equal {} on {} steps (loss, grad_norm, lr", c.equal() ? "" : "different: ", measure,
                       c.shared_steps);
    if (c.hashed_steps > 0) text += fmt::format("; state_hash on {}", c.hashed_steps);
    text += c.equal() ? ")\n" : "), but not the same steps\n";
  }
  if (!c.only_in_a.empty()) text += fmt::format("steps missing in B: {}\n", step_list(c.only_in_a));
  if (!c.only_in_b.empty()) text += fmt::format("steps missing in A: {}\n", step_list(c.only_in_b));
  return text;
}

std::string speed_row(const char* name, double a, double b, int decimals) {
  const std::string ratio = a > 0 && std::isfinite(b) ? fmt::format("{:.3f}", b / a) : "-";
  return fmt::format("  {:<24}{:>14.{}f}{:>14.{}f}{:>10}\n", name, a, decimals, b, decimals, ratio);
}

std::string report(const RunLog& a, const RunLog& b, const Comparison& c, std::optional<double> tolerance) {
  std::string text = fmt::format("A: {}\nB: {}\n", a.folder.string(), b.folder.string());
  text += verdict_text(c, tolerance);
  text += fmt::format("\n  {:<24}{:>14}{:>14}{:>10}\n", "", "A", "B", "B/A");
  text += speed_row("tokens/s (median)", c.speed_a.tokens_per_s, c.speed_b.tokens_per_s, 1);
  text += speed_row("step time ms (median)", 1e3 * c.speed_a.step_time_s, 1e3 * c.speed_b.step_time_s, 2);
  text += speed_row("peak memory GiB", c.speed_a.peak_memory_gib, c.speed_b.peak_memory_gib, 4);
  for (const RunLog* run : {&a, &b})
    if (run->config.empty())
      text += fmt::format("\nno config.toml in {}: configurations not compared\n", run->folder.string());
  if (!c.config.empty()) text += "\nconfiguration:\n";
  for (const ConfigDifference& d : c.config) text += fmt::format("  {}: A {}, B {}\n", d.key, d.a, d.b);
  return text;
}

ordered_json speed_json(const Speed& speed) {
  return {{"tokens_per_s", speed.tokens_per_s},
          {"step_time_s", speed.step_time_s},
          {"peak_memory_gib", speed.peak_memory_gib}};
}

std::string json_report(const RunLog& a, const RunLog& b, const Comparison& c) {
  ordered_json first = nullptr;
  if (const auto& d = c.first_difference)
    first = {
        {"step", d->step}, {"quantity", d->quantity}, {"a", d->a}, {"b", d->b}, {"relative", d->relative}};
  ordered_json config = ordered_json::object();
  for (const ConfigDifference& d : c.config) config[d.key] = {{"a", d.a}, {"b", d.b}};
  const ordered_json whole = {{"a", a.folder.string()},
                              {"b", b.folder.string()},
                              {"equal", c.equal()},
                              {"first_difference", first},
                              {"shared_steps", c.shared_steps},
                              {"hashed_steps", c.hashed_steps},
                              {"missing_in_a", c.only_in_b},
                              {"missing_in_b", c.only_in_a},
                              {"speed_a", speed_json(c.speed_a)},
                              {"speed_b", speed_json(c.speed_b)},
                              {"config", config}};
  return whole.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

int run_compare(const Arguments& args) {
  const CompareOptions options = parse(args);
  if (options.help) {
    std::puts(kHelp);
    return 0;
  }
  const RunLog a = read_run(options.folders[0]);
  const RunLog b = read_run(options.folders[1]);
  const Comparison comparison = compare_runs(a, b, options.tolerance);
  std::fputs(
      (options.json ? json_report(a, b, comparison) : report(a, b, comparison, options.tolerance)).c_str(),
      stdout);
  return comparison.equal() ? 0 : 1;
}

}  // namespace rondo
