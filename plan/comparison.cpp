// Efficiency is the speed of a rank as a share of that of the first row with the same device, so it
// shows what the larger number of ranks costs. The picture draws both axes by factors: there, a
// speed in proportion to the ranks is a straight line of slope 1.
#include "plan/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "plan/plan_text.h"
#include "runs/metrics/step_metrics.h"
#include "support/text/html.h"
#include "support/text/size_text.h"

namespace rondo {
namespace {

constexpr double kWidth = 760, kHeight = 460, kLeft = 92, kRight = 150, kTop = 76, kBottom = 58;
constexpr const char* kColours[] = {"#3a67c4", "#1f8a70", "#e28030", "#a04ba0", "#7a9620", "#c0392b"};

// Returns the plans of each device.
std::vector<std::span<const JobPlan>> by_device(const std::vector<JobPlan>& plans) {
  std::vector<std::span<const JobPlan>> groups;
  for (auto from = plans.begin(); from != plans.end();) {
    const auto to =
        std::find_if(from, plans.end(), [&](const JobPlan& p) { return p.device != from->device; });
    groups.emplace_back(from, to);
    from = to;
  }
  return groups;
}

double ranks_of(const JobPlan& plan) { return static_cast<double>(plan.layout.mesh.world_size()); }

double efficiency(const JobPlan& plan, const JobPlan& first) {
  return plan.tokens_per_s_per_rank() / first.tokens_per_s_per_rank();
}

std::string title_of(const JobPlan& plan) {
  return plan.model + (plan.flavor.empty() ? "" : " ") + plan.flavor;
}

// Maps values to coordinates by their logarithm.
struct LogScale {
  double least, most, from, to;
  double at(double value) const {
    return from + (to - from) * std::log(value / least) / std::log(most / least);
  }
};

std::string line(double x1, double y1, double x2, double y2, const std::string& style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1, x2, y2,
                     style);
}

std::string label(double x, double y, const std::string& anchor, const std::string& text,
                  const std::string& style = "fill=\"#5b6575\"") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", x, y, anchor, style,
                     escaped_html(text));
}

std::string grid(const LogScale& x, const LogScale& y, const std::vector<double>& ranks) {
  std::string out;
  const std::string faint = "stroke=\"#e3e7ee\"";
  for (const double world : ranks) {
    out += line(x.at(world), kTop, x.at(world), kHeight - kBottom, faint);
    out += label(x.at(world), kHeight - kBottom + 20, "middle", grouped(static_cast<std::int64_t>(world)));
  }
  for (double power = std::pow(10, std::floor(std::log10(y.least))); power < y.most; power *= 10)
    for (const double tick : {power, 2 * power, 5 * power}) {
      if (tick < y.least || tick > y.most) continue;
      out += line(kLeft, y.at(tick), kWidth - kRight, y.at(tick), faint);
      out += label(kLeft - 10, y.at(tick) + 4, "end", count_text(static_cast<std::int64_t>(tick)));
    }
  return out + label((kLeft + kWidth - kRight) / 2, kHeight - 14, "middle", "ranks");
}

std::string curve(std::span<const JobPlan> plans, const LogScale& x, const LogScale& y, const char* colour) {
  const JobPlan &first = plans.front(), &last = plans.back();
  const double ideal = first.tokens_per_s_per_rank() * ranks_of(last);
  std::string out = line(x.at(ranks_of(first)), y.at(first.tokens_per_s()), x.at(ranks_of(last)), y.at(ideal),
                         fmt::format("stroke=\"{}\" stroke-dasharray=\"4 4\" opacity=\"0.6\"", colour));
  for (std::size_t i = 1; i < plans.size(); ++i)
    out += line(x.at(ranks_of(plans[i - 1])), y.at(plans[i - 1].tokens_per_s()), x.at(ranks_of(plans[i])),
                y.at(plans[i].tokens_per_s()), fmt::format("stroke=\"{}\" stroke-width=\"2\"", colour));
  for (const JobPlan& plan : plans)
    out += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\" stroke=\"{}\" stroke-width=\"2\">"
        "<title>{} ranks: {} tokens/s, {:.1f} % of the first speed a rank{}</title></circle>\n",
        x.at(ranks_of(plan)), y.at(plan.tokens_per_s()), plan.fits() ? colour : "#ffffff", colour,
        grouped(plan.layout.mesh.world_size()), grouped(static_cast<std::int64_t>(plan.tokens_per_s())),
        100 * efficiency(plan, first), plan.fits() ? "" : "; does not fit");
  return out + label(x.at(ranks_of(last)) + 10, y.at(last.tokens_per_s()) + 4, "start",
                     fmt::format("{}, {:.0f} %", last.device->name, 100 * efficiency(last, first)),
                     fmt::format("fill=\"{}\"", colour));
}

}  // namespace

std::string comparison_text(const std::vector<JobPlan>& plans, std::int64_t tokens) {
  const JobPlan& job = plans.front();
  const bool has_price = job.price_per_hour > 0;
  const std::int64_t run_tokens = tokens > 0 ? tokens : kOptimalTokensPerParameter * job.parameters;
  std::string text = fmt::format(
      "{}: {} parameters; time of {} "
      "tokens{}\n\n{:<12}{:>7}{:>10}{:>11}{:>11}{:>12}{:>8}{:>12}{:>8}{:>9}{:>12}{}\n",
      title_of(job), grouped(job.parameters), count_text(run_tokens), tokens > 0 ? "" : ", 20 a parameter",
      "device", "ranks", "GiB", "ms a step", "tokens/s", "a rank", "MFU %", "efficiency", "within", "time",
      "hours", has_price ? fmt::format("{:>14}", "price") : "");
  for (const std::span<const JobPlan> group : by_device(plans))
    for (const JobPlan& p : group) {
      const RunEstimate run = p.run(p.steps_for(run_tokens));
      text += fmt::format(
          "{:<12}{:>7}{:>10.1f}{:>11.1f}{:>11}{:>12}{:>8.1f}{:>10.1f} %{:>8}{:>9}{:>12}{}{}\n",
          p.device->name, grouped(p.layout.mesh.world_size()),
          static_cast<double>(p.memory.total_bytes()) / (1 << 30), p.step_s() * 1e3,
          grouped(static_cast<std::int64_t>(p.tokens_per_s())),
          grouped(static_cast<std::int64_t>(p.tokens_per_s_per_rank())), p.mfu_percent(),
          100 * efficiency(p, group.front()),
          p.device->is_gpu ? fmt::format("{} %", p.accuracy.percent_of_80) : std::string(),
          format_duration(run.seconds), grouped(std::llround(run.device_hours)),
          has_price ? fmt::format("{:>14}", "$" + grouped(std::llround(std::ceil(run.price)))) : "",
          p.fits()
              ? std::string()
              : fmt::format("  does not fit in {:.1f} GiB", static_cast<double>(p.usable_bytes) / (1 << 30)));
    }
  text += "\n";
  for (const std::span<const JobPlan> group : by_device(plans))
    text += fmt::format("{:<12}  {}\n", group.front().device->name, group.front().device->what);
  return text;
}

std::string scaling_svg(const std::vector<JobPlan>& plans) {
  const auto groups = by_device(plans);
  std::vector<double> ranks, speeds;
  for (const std::span<const JobPlan> group : groups)
    for (const JobPlan& plan : group) {
      ranks.push_back(ranks_of(plan));
      speeds.push_back(plan.tokens_per_s());
      speeds.push_back(group.front().tokens_per_s_per_rank() * ranks_of(plan));
    }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  const auto [slowest, fastest] = std::minmax_element(speeds.begin(), speeds.end());
  const LogScale x{ranks.front(), ranks.back(), kLeft, kWidth - kRight};
  const LogScale y{*slowest / 1.2, *fastest * 1.2, kHeight - kBottom, kTop};
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\" font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" rx=\"10\" fill=\"#ffffff\"/>\n",
      kWidth, kHeight);
  out += label(24, 34, "start", title_of(plans.front()), "font-size=\"18\" fill=\"#1b2230\"");
  out += label(24, 54, "start", "planned tokens/s; dashed: the first speed a rank");
  out += grid(x, y, ranks);
  for (std::size_t i = 0; i < groups.size(); ++i)
    out += curve(groups[i], x, y, kColours[i % std::size(kColours)]);
  return out + "</svg>\n";
}

}  // namespace rondo
