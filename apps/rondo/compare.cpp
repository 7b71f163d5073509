// `rondo compare RUN_A RUN_B ... [--json] [--tolerance REL]`. Results go to stdout. Two runs are
// columns of a table, more runs are rows. Every run is compared with the first bit for bit.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "runs/compare_runs.h"
#include "runs/rank_runs.h"
#include "support/flags/flags.h"
#include "support/text/size_text.h"
#include "support/watch/still_working.h"

namespace rondo {
namespace {

using nlohmann::ordered_json;

// Returns the name of a run in the report: A, B, ..., Z, R27, R28, ...
std::string letter(std::size_t run) {
  return run < 26 ? std::string(1, static_cast<char>('A' + run)) : fmt::format("R{}", run + 1);
}

std::string verdict_text(const Comparison& c, std::optional<double> tolerance, const std::string& b) {
  std::string text;
  if (const auto& d = c.first_difference) {
    text = fmt::format("different: step {} is the first that differs, in {}: A {}, {} {}", d->step,
                       d->quantity, d->a, b, d->b);
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
  if (!c.only_in_a.empty()) text += fmt::format("steps missing in {}: {}\n", b, step_list(c.only_in_a));
  if (!c.only_in_b.empty()) text += fmt::format("steps missing in A: {}\n", step_list(c.only_in_b));
  return text;
}

// The compared runs and their comparisons.
struct Compared {
  std::vector<RunLog> runs;
  std::vector<Comparison> with_first;  // one per run after the first
  std::vector<Speed> speeds;
  Ranking ranking;
  std::vector<ConfigRow> config;

  bool equal() const {
    for (const Comparison& c : with_first)
      if (!c.equal()) return false;
    return true;
  }
};

Compared compare(const std::vector<std::string>& folders, std::optional<double> tolerance, bool json) {
  const StillWorking working("comparing", json);
  Compared compared;
  for (const std::filesystem::path& folder : run_folders(folders, 2))
    compared.runs.push_back(read_run(folder));
  std::vector<const RunLog*> logs;
  for (const RunLog& run : compared.runs) {
    if (!logs.empty())
      compared.with_first.push_back(compare_runs(compared.runs[0].folder, run.folder, tolerance));
    logs.push_back(&run);
    compared.speeds.push_back(speed_of(run.steps));
  }
  compared.ranking = rank_runs(logs);
  compared.config = config_differences(logs);
  return compared;
}

std::string row(const std::string& name, double a, double b, int decimals) {
  const std::string ratio = a > 0 && std::isfinite(b) ? fmt::format("{:.3f}", b / a) : "-";
  return fmt::format("  {:<32}{:>14.{}f}{:>14.{}f}{:>10}\n", name, a, decimals, b, decimals, ratio);
}

std::string columns(const Compared& c) {
  const Ranking& r = c.ranking;
  const Speed &a = c.speeds[0], &b = c.speeds[1];
  std::string text = fmt::format("  {:<32}{:>14}{:>14}{:>10}\n", "", "A", "B", "B/A");
  text += row("loss at " + count_text(r.tokens) + " tokens", r.losses[0].loss, r.losses[1].loss, 4);
  if (r.by_validation)
    text +=
        row("validation at " + count_text(r.validation_tokens) + " tokens", r.loss_of(0), r.loss_of(1), 4);
  text += row("tokens/s (median)", a.tokens_per_s, b.tokens_per_s, 1);
  text += row("step time ms (median)", 1e3 * a.step_time_s, 1e3 * b.step_time_s, 2);
  return text + row("peak memory GiB", a.peak_memory_gib, b.peak_memory_gib, 4);
}

std::string rows(const Compared& c) {
  const Ranking& r = c.ranking;
  std::string text = fmt::format("  {:<5}{:>12}{:>12}{:>12}{:>10}{:>12}{:>12}\n", "best", "loss",
                                 "validation", "tokens/s", "to A", "step ms", "memory GiB");
  for (const std::size_t i : r.best_first) {
    const Speed& speed = c.speeds[i];
    const std::optional<double> validation = r.losses[i].validation_loss;
    text += fmt::format("  {:<5}{:>12.4f}{:>12}{:>12.1f}{:>10.3f}{:>12.2f}{:>12.4f}\n", letter(i),
                        r.losses[i].loss, validation ? fmt::format("{:.4f}", *validation) : "-",
                        speed.tokens_per_s, speed.tokens_per_s / c.speeds[0].tokens_per_s,
                        1e3 * speed.step_time_s, speed.peak_memory_gib);
  }
  text += fmt::format("losses at {} tokens, the most that all runs have seen", count_text(r.tokens));
  if (r.by_validation)
    text += fmt::format("; validation losses at {} tokens", count_text(r.validation_tokens));
  return text + "\n";
}

// Returns which run is best, and its lead over the next.
std::string best_text(const Compared& c) {
  const Ranking& r = c.ranking;
  const std::size_t best = r.best_first[0], next = r.best_first[1];
  const double low = r.loss_of(best), high = r.loss_of(next);
  const std::string name = r.by_validation ? "validation loss" : "loss";
  if (low == high)
    return fmt::format("no run is better: {} and {} have the same {}\n", letter(best), letter(next), name);
  if (!std::isfinite(high))
    return fmt::format("better: {}, the only one with a finite {}\n", letter(best), name);
  return fmt::format("better: {}, whose {} of {:.4f} is {:.4g} ({:.2g} %) below {}'s\n", letter(best), name,
                     low, high - low, 100 * (high - low) / high, letter(next));
}

std::string report(const Compared& c, std::optional<double> tolerance) {
  const bool two = c.runs.size() == 2;
  std::string text;
  for (std::size_t i = 0; i < c.runs.size(); ++i)
    text += fmt::format("{}: {}\n", letter(i), c.runs[i].folder.string());
  for (std::size_t i = 1; i < c.runs.size(); ++i)
    text += (two ? "" : letter(i) + " against A: ") + verdict_text(c.with_first[i - 1], tolerance, letter(i));
  text += "\n" + (two ? columns(c) : rows(c)) + best_text(c);
  for (const RunLog& run : c.runs)
    if (run.config.empty())
      text += fmt::format("\nno config.toml in {}: configurations not compared\n", run.folder.string());
  if (!c.config.empty()) text += "\nconfiguration:\n";
  for (const ConfigRow& row : c.config) {
    text += fmt::format("  {}:", row.key);
    for (std::size_t i = 0; i < row.values.size(); ++i)
      text += fmt::format("{} {} {}", i > 0 ? "," : "", letter(i), row.values[i]);
    text += "\n";
  }
  return text;
}

ordered_json finite(std::optional<double> value) {
  return value && std::isfinite(*value) ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json bits_json(const Comparison& c) {
  ordered_json first = nullptr;
  if (const auto& d = c.first_difference)
    first = {
        {"step", d->step}, {"quantity", d->quantity}, {"a", d->a}, {"b", d->b}, {"relative", d->relative}};
  return {{"equal", c.equal()},
          {"first_difference", first},
          {"shared_steps", c.shared_steps},
          {"hashed_steps", c.hashed_steps},
          {"missing_in_a", c.only_in_b},
          {"missing_in_b", c.only_in_a}};
}

// "runs" has the order of the arguments. Each run after the first has its comparison with the
// first, in which it is "b" and the first is "a".
std::string json_report(const Compared& c) {
  ordered_json runs = ordered_json::array();
  for (std::size_t i = 0; i < c.runs.size(); ++i) {
    ordered_json run = {{"folder", c.runs[i].folder.string()},
                        {"loss", finite(c.ranking.losses[i].loss)},
                        {"validation_loss", finite(c.ranking.losses[i].validation_loss)},
                        {"tokens_per_s", c.speeds[i].tokens_per_s},
                        {"step_time_s", c.speeds[i].step_time_s},
                        {"peak_memory_gib", c.speeds[i].peak_memory_gib}};
    if (i > 0) run["beside_first"] = bits_json(c.with_first[i - 1]);
    runs.push_back(run);
  }
  ordered_json config = ordered_json::object();
  for (const ConfigRow& row : c.config) config[row.key] = row.values;
  const ordered_json whole = {{"equal", c.equal()},
                              {"tokens", c.ranking.tokens},
                              {"validation_tokens", c.ranking.validation_tokens},
                              {"best_first", c.ranking.best_first},
                              {"runs", runs},
                              {"config", config}};
  return whole.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

int run_compare(const Arguments& args) {
  std::string first, second;
  std::vector<std::string> folders, more;
  std::optional<double> tolerance;
  bool json = false;
  Flags flags("compare",
              "Compares run folders with the first: loss, grad_norm, lr and state_hash of every step, bit "
              "for\nbit. Then compares losses at equal tokens, speed (medians after the first tenth of the "
              "lines),\nmemory and configuration.",
              "Exit code: 0 all equal, 1 different, 2 usage, 4 a run folder is missing or damaged.");
  flags.positional("RUN_A", flag::text(&first), "folder of a run", Need::required);
  flags.positional("RUN_B", flag::text(&second), "folder of another run", Need::required);
  flags.positional("RUN...", flag::append(&more), "more run folders; other paths are left out with a warning",
                   Need::optional);
  flags.toggle("--json", &json, "print one JSON object instead of text");
  flags.value("--tolerance", "REL", flag::number(&tolerance, 0),
              "relative tolerance of loss and grad_norm; hashes are then not compared");
  if (!flags.read(args)) return 0;
  folders = {first, second};
  folders.insert(folders.end(), more.begin(), more.end());
  const Compared compared = compare(folders, tolerance, json);
  std::fputs((json ? json_report(compared) : report(compared, tolerance)).c_str(), stdout);
  return compared.equal() ? 0 : 1;
}

}  // namespace rondo
