// `rondo compare RUN_A RUN_B [--json] [--tolerance REL]`. Results go to stdout.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "support/flags/flags.h"
#include "trainer/observe/runs/compare_runs.h"

namespace rondo {
namespace {

using nlohmann::ordered_json;

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
  std::filesystem::path folder_a, folder_b;
  std::optional<double> tolerance;
  bool json = false;
  Flags flags("compare",
              "Compares two run folders: loss, grad_norm, lr and state_hash of every step, bit for bit.\n"
              "Then speed (medians after the first tenth of the lines), memory and configuration.",
              "Exit code: 0 equal, 1 different, 2 usage, 4 a run folder is missing or damaged.");
  flags.positional("RUN_A", flag::text(&folder_a), "the folder of a run", Need::required);
  flags.positional("RUN_B", flag::text(&folder_b), "the folder of another", Need::required);
  flags.toggle("--json", &json, "one JSON object instead of text");
  flags.value("--tolerance", "REL", flag::number(&tolerance, 0),
              "loss and grad_norm may differ by this much relatively; hashes are not compared");
  if (!flags.read(args)) return 0;
  const RunLog a = read_run(folder_a);
  const RunLog b = read_run(folder_b);
  const Comparison comparison = compare_runs(a, b, tolerance);
  std::fputs((json ? json_report(a, b, comparison) : report(a, b, comparison, tolerance)).c_str(), stdout);
  return comparison.equal() ? 0 : 1;
}

}  // namespace rondo
