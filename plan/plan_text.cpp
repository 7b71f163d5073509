// The text consists of lines with aligned columns, in groups.
#include "plan/plan_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "parallel/pipeline/picture.h"
#include "runs/metrics/step_metrics.h"
#include "support/text/size_text.h"

namespace rondo {
namespace {

using ir::CollectiveKind;
using ir::CostKind;
using ir::InputKind;
using ir::StorageCategory;

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

double gib(double bytes) { return bytes / kGib; }
double gib(std::int64_t bytes) { return static_cast<double>(bytes) / kGib; }

std::string plural(std::int64_t count, const std::string& noun, const char* ending = "s") {
  return fmt::format("{} {}{}", grouped(count), noun, count == 1 ? "" : ending);
}

class Lines {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  std::string text() const { return text_; }

 private:
  std::string text_;
};

std::string whole(double number) { return grouped(static_cast<std::int64_t>(number)); }

// Adds whether the job fits, and how fast it is.
void add_verdict(Lines& lines, const JobPlan& p) {
  const bool fits = p.fits();
  lines.add("{:<15}{:.3f} GiB of {:.1f} usable on rank {}", fits ? "fits" : "does not fit",
            gib(p.memory.total_bytes()), gib(p.usable_bytes), p.rank);
  lines.add("{:<15}{} tokens/s, {} a rank; {:.1f} ms a step{}{}", "speed", whole(p.tokens_per_s()),
            whole(p.tokens_per_s_per_rank()), p.step_s() * 1e3,
            p.device->is_gpu ? fmt::format("; MFU {:.1f} %", p.mfu_percent()) : std::string(),
            fits ? "" : "; as if it fitted");
  if (p.device->is_gpu)
    lines.add("{:<15}the speed of 8 in 10 published runs was within {} % for {}", "accuracy",
              p.accuracy.percent_of_80, p.accuracy.of);
  const RunEstimate run = p.run(p.steps);
  lines.add("{:<15}{} tokens in {}{}", "run", count_text(static_cast<std::int64_t>(run.tokens)),
            format_duration(run.seconds),
            run.price > 0 ? fmt::format(" for ${}", whole(std::ceil(run.price))) : std::string());
  lines.add("");
}

void add_job(Lines& lines, const JobPlan& p) {
  lines.add("model          {}{}{}: {} parameters, {:.3f} GFLOP a token", p.model,
            p.flavor.empty() ? "" : " ", p.flavor, grouped(p.parameters), p.flops_per_token * 1e-9);
  const std::string mesh = p.layout.mesh.text();
  lines.add("layout         {} of {} ({}){}", plural(p.layout.mesh.world_size(), "rank"), p.device->name,
            p.device->what, mesh.empty() ? "" : ": " + mesh);
  lines.add("step           {}, {} tokens; {} a rank", plural(p.layout.global_batch_size, "sequence"),
            grouped(p.tokens_per_step), plural(p.layout.microbatches, "microbatch", "es"));
  if (p.expert_rows)
    lines.add(
        "experts        capacity for {} rows of a layer on each rank, {:.3f} GiB; balanced routers send {}",
        grouped(p.expert_rows->room), gib(static_cast<double>(p.expert_rows->bytes)),
        grouped(p.expert_rows->balanced));
}

void add_memory(Lines& lines, const JobPlan& p) {
  lines.add("");
  lines.add("memory of rank {} at its peak ({}), memory policy {}", p.rank, p.memory.report.peak_at,
            name_of(p.memory_policy));
  for (const MemoryRow& row : memory_rows(p.memory))
    if (row.bytes >= 1024) lines.add("  {:<22}{:>12}", row.name, size_text(row.bytes));
  lines.add("  {:<22}{:>9.3f} GiB of {:.1f} usable: {}", "total", gib(p.memory.total_bytes()),
            gib(p.usable_bytes), p.fits() ? "fits" : "does not fit");
  if (const std::int64_t host_bytes = p.memory.host_total_bytes(); host_bytes > 0)
    lines.add("  {:<22}{:>9.3f} GiB", "in host memory", gib(host_bytes));
  if (!p.memory.report.largest.empty()) {
    const ir::LargeStorage& largest = p.memory.report.largest.front();
    lines.add("  {:<22}{:>9.3f} GiB {} of {}, {}", "largest tensor", gib(largest.storage.bytes), largest.type,
              largest.module.empty() ? "the step" : largest.module, largest.op);
  }
}

void add_ways(Lines& lines, const std::vector<Way>& ways) {
  for (const Way& way : ways) {
    lines.add("  {:>9.3f} GiB  {:>11.1f} ms a step{:>13} tokens/s in total, {} tokens a step, {} a rank",
              gib(way.total_bytes), way.step_s * 1e3, grouped(static_cast<std::int64_t>(way.tokens_per_s)),
              grouped(way.tokens_per_step), plural(way.microbatches, "microbatch", "es"));
    if (!way.changes.empty()) lines.add("      changes the training: {}", fmt::join(way.changes, "; "));
    lines.add("      {}", fmt::join(way.flags, " "));
  }
}

// Adds the lists after `found`, and the work of the search.
void add_rest(Lines& lines, const SearchResult& r) {
  if (!r.changed_training.empty()) {
    lines.add("faster ways that change the training");
    add_ways(lines, r.changed_training);
  }
  if (!r.other_tokens.empty()) {
    lines.add("ways with another number of tokens a step, which need another learning rate");
    add_ways(lines, r.other_tokens);
  }
  lines.add("  {} estimated from a few layers, {} planned whole in {:.1f} s", plural(r.estimated, "way"),
            r.planned, r.seconds);
  if (!r.is_complete) lines.add("  the search ended at its limit; --search-plans N raises it");
}

// Adds ways to run a job that does not fit.
void add_ways_to_fit(Lines& lines, const JobPlan& p, const SearchResult& r) {
  lines.add("");
  const std::int64_t world = p.layout.mesh.world_size();
  const bool has_any = !r.same_training.empty() || !r.changed_training.empty() || !r.other_tokens.empty();
  if (has_any && (r.same_training.empty() || r.same_training[0].world == world)) {
    lines.add("ways to fit on these {}, fastest first", plural(world, "rank"));
  } else if (!has_any && !r.is_complete) {
    lines.add("no way to fit was found in {}", plural(r.estimated + r.planned, "plan"));
  } else {
    lines.add("no way to fit on {}{}", plural(world, "rank"),
              r.least_ranks_for_state <= world
                  ? std::string()
                  : fmt::format(": parameters and optimizer state alone need {} as configured "
                                "(training.dtype and optimizer.implementation change that, and the numerics)",
                                plural(r.least_ranks_for_state, "rank")));
    if (!has_any) {
      lines.add("nothing fits on {} either: use a larger device or a smaller model",
                plural(r.most_ranks, "rank"));
    } else {
      lines.add("ways to fit on {}, the fewest that suffice", plural(r.most_ranks, "rank"));
    }
  }
  add_ways(lines, r.same_training);
  add_rest(lines, r);
}

// Adds faster ways to run a job that fits.
void add_faster_ways(Lines& lines, const JobPlan& p, const SearchResult& r) {
  lines.add("");
  if (const Way* best = r.best(); best != nullptr)
    lines.add("left on the table: {:.1f} % of this speed; faster ways that fit, fastest first",
              100 * (best->tokens_per_s / p.tokens_per_s() - 1));
  else
    lines.add("no faster way with as many tokens a step was found");
  add_ways(lines, r.same_training);
  add_rest(lines, r);
}

// Adds the run of the configuration or of --tokens, and the compute-optimal one.
void add_runs(Lines& lines, const JobPlan& p) {
  lines.add("");
  lines.add("{:<24}{:>10}{:>12}{:>10}{:>16}{:>15}{:>14}", "runs, steps alone", "tokens", "steps", "time",
            p.device->is_gpu ? "GPU hours" : "hours of ranks", p.price_per_hour > 0 ? "price" : "",
            p.device->power_w > 0 ? "energy" : "");
  const auto row = [&](const std::string& name, const RunEstimate& run) {
    lines.add("  {:<22}{:>10}{:>12}{:>10}{:>16}{:>15}{:>14}", name,
              count_text(static_cast<std::int64_t>(run.tokens)), grouped(run.steps),
              format_duration(run.seconds), whole(std::round(run.device_hours)),
              run.price > 0 ? "$" + whole(std::ceil(run.price)) : std::string(),
              run.energy_kwh > 0 ? whole(std::ceil(run.energy_kwh)) + " kWh" : std::string());
  };
  row("this run", p.run(p.steps));
  row(fmt::format("{} tokens a parameter", kOptimalTokensPerParameter), p.optimal_run());
  if (p.price_per_hour > 0)
    lines.add("  {:<22}{:>10}", "price of 1e9 tokens", fmt::format("${:.2f}", p.price_per_billion_tokens()));
  lines.add("  {:<22}{:>10.1f} GiB to resume from, {:.1f} GiB weights alone", "checkpoint",
            gib(p.checkpoint.full), gib(p.checkpoint.weights));
}

void add_collectives(Lines& lines, const JobPlan& p) {
  lines.add("");
  if (p.step.communication_s() == 0) {
    lines.add("collectives of a step: none");
    return;
  }
  lines.add("{:<24}{:>7}{:>13}{:>12}{:>12}", "collectives of a step", "count", "sent a rank", "time",
            "exposed");
  const auto row = [&](const std::string& name, const ir::CollectiveTotals& c) {
    lines.add("  {:<22}{:>7}{:>9.3f} GiB{:>9.1f} ms{:>9.1f} ms", name, c.count, gib(c.sent_bytes),
              c.seconds * 1e3, c.exposed_s * 1e3);
  };
  for (std::size_t i = 0; i < ir::kCollectiveKinds; ++i) {
    const auto kind = static_cast<CollectiveKind>(i);
    const ir::CollectiveTotals total = p.step.of(kind);
    if (total.count == 0) continue;
    row(std::string(ir::collective_name(kind)), total);
    for (const auto& [key, totals] : p.step.collectives)
      if (key.first == kind && totals.count < total.count) row("  " + key.second, totals);
  }
}

void add_step(Lines& lines, const JobPlan& p) {
  const auto row = [&](const char* name, double seconds, const std::string& more) {
    lines.add("  {:<22}{:>9.1f} ms{:>6.1f} %{}", name, seconds * 1e3, 100 * seconds / p.step_s(), more);
  };
  const auto compute = [&](const char* name, CostKind kind) {
    const ir::ComputeTotals& part = p.step.of(kind);
    if (part.nodes > 0) row(name, part.seconds, fmt::format("  {}", plural(part.nodes, "op")));
  };
  const bool several_stages = p.pipeline && p.pipeline->layout.program.stages > 1;
  lines.add("");
  lines.add("time of a step, estimated{}",
            several_stages ? fmt::format("; of the rank that computes {:.1f} ms of it", p.step.step_s * 1e3)
                           : std::string());
  compute("matrix products", CostKind::matmul);
  compute("attention", CostKind::attention);
  compute("memory traffic", CostKind::memory);
  compute("launches", CostKind::launch);
  if (p.step.communication_s() > 0) {
    row("exposed communication", p.step.exposed_s,
        fmt::format("  {:.1f} ms are hidden",
                    std::max(0.0, p.step.communication_s() - p.step.exposed_s) * 1e3));
    row("slowed by communication", p.step.slowed_s, "  concurrent kernels take from compute");
  }
  if (const ir::TransferTotals& t = p.step.transfers; t.count > 0)
    row("exposed offloading", t.exposed_s,
        fmt::format("  {} copies, {:.1f} GiB, {:.1f} ms are hidden", t.count, gib(t.bytes),
                    std::max(0.0, t.seconds - t.exposed_s) * 1e3));
  if (several_stages) row("bubbles", p.bubble_s, "  waits for other stages");
  lines.add("  {:<22}{:>9.1f} ms", "step", p.step_s() * 1e3);
  lines.add("  {:<22}{:>9} a rank, {} in total", "tokens/s", whole(p.tokens_per_s_per_rank()),
            whole(p.tokens_per_s()));
  lines.add("  {:<22}{:>9.1f} %{}", p.device->is_gpu ? "MFU" : "of matrix products", p.mfu_percent(),
            p.device->is_gpu ? fmt::format(" of {:.0f} TFLOP/s", p.device->peak_16bit_flops_per_s * 1e-12)
                             : fmt::format(" of {:.0f} GFLOP/s, as measured in bf16",
                                           p.device->peak_16bit_flops_per_s * 1e-9));
  if (p.device->is_gpu)
    lines.add("  {:<22}{:>9.1f} % with half of causal attention; HFU {:.1f} %", "  causal",
              p.causal_mfu_percent(), p.hfu_percent());
  lines.add("  {:<22}{}", "bound by", p.bound());
  lines.add("  {:<22}{:>9} tokens/s a rank, MFU {:.1f} %, if only {} took time", "at most",
            grouped(static_cast<std::int64_t>(p.most_tokens_per_s_per_rank())), p.most_mfu_percent(),
            p.floor().of);
}

// Formats runs of equal values: "8 x 3, 7, 6".
template <class T>
std::string runs_text(const std::vector<T>& values) {
  std::string text;
  for (auto from = values.begin(); from != values.end();) {
    const auto to = std::find_if(from, values.end(), [&](const T& value) { return value != *from; });
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", *from,
                        to - from > 1 ? fmt::format(" x {}", to - from) : std::string());
    from = to;
  }
  return text;
}

void add_pipeline(Lines& lines, const JobPlan& p) {
  const PipelinePlan& pipeline = *p.pipeline;
  const pipeline::Program& program = pipeline.layout.program;
  const std::vector<pipeline::Edge>& edges = pipeline.layout.proof.edges;
  const auto [least, most] = std::minmax_element(pipeline.bytes.begin(), pipeline.bytes.end());
  lines.add("");
  if (program.stages == 1)
    return lines.add("overlapped microbatches: {} a step, at most {} in flight", program.microbatches,
                     pipeline.layout.proof.in_flight.of_stage[0]);
  lines.add("pipeline {}: {}", pipeline.schedule, shape_text(program));
  lines.add("  {:<22}{}", "layers", print_layout(pipeline.layers()));
  lines.add("  {:<22}{:>9.1f} % of the time of all ranks, {:.1f} ms a rank", "bubbles",
            100 * pipeline.bubble_share(), pipeline.bubble_share() * pipeline.step_s() * 1e3);
  lines.add("  {:<22}{} microbatches of the stages", "in flight",
            runs_text(pipeline.layout.proof.in_flight.of_stage));
  lines.add("  {:<22}{:>9.3f} to {:.3f} GiB", "memory of the ranks", gib(*least), gib(*most));
  if (pipeline.most_pending() > 0)
    lines.add("  {:<22}{} microbatches of the stages between I and W, at most {} each", "pending",
              runs_text(pipeline.layout.proof.in_flight.pending_of_stage),
              size_text(*std::max_element(pipeline.pending_bytes.begin(), pipeline.pending_bytes.end())));
  for (const PendingLimit& limit : pipeline.limits)
    lines.add("    {:<20}{:>9.3f} GiB on the fullest rank, {}; {:.1f} ms a step",
              fmt::format("at most {} of a stage", limit.most), gib(limit.bytes),
              limit.bytes <= p.usable_bytes ? "fits" : "does not fit", limit.step_s * 1e3);
  const auto [few, many] = std::minmax_element(
      edges.begin(), edges.end(),
      [](const pipeline::Edge& a, const pipeline::Edge& b) { return a.messages < b.messages; });
  double slowest = 0;
  for (const double message : pipeline.times.messages) slowest = std::max(slowest, message);
  lines.add("  {:<22}{:>12}, {:.2f} ms", "message", size_text(pipeline.message_bytes), slowest * 1e3);
  lines.add("  {:<22}{:>9} on each of {} edges, {} at most", "messages",
            few->messages == many->messages ? grouped(few->messages)
                                            : fmt::format("{} to {}", few->messages, many->messages),
            edges.size(), size_text(many->messages * pipeline.message_bytes));
}

// Adds the ops with the most launches.
void add_launches(Lines& lines, const JobPlan& p) {
  constexpr std::size_t kShown = 6;
  std::vector<std::pair<std::string, std::int64_t>> ops(p.step.launches.begin(), p.step.launches.end());
  std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::int64_t rest = p.step.all_launches();
  lines.add("");
  lines.add("{:<40}{:>9}", "kernels, copies and fills of a step", grouped(rest));
  for (std::size_t i = 0; i < std::min(kShown, ops.size()); ++i) {
    lines.add("  {:<38}{:>9}", ops[i].first, grouped(ops[i].second));
    rest -= ops[i].second;
  }
  if (rest > 0) lines.add("  {:<38}{:>9}", "of other ops", grouped(rest));
}

}  // namespace

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::vector<MemoryRow> memory_rows(const PlannedMemory& memory) {
  std::vector<MemoryRow> rows;
  const auto input = [&](const char* name, InputKind kind) {
    rows.push_back({name, memory.input_bytes[static_cast<std::size_t>(kind)]});
  };
  input("parameters", InputKind::parameter);
  input("optimizer", InputKind::optimizer);
  input("buffers", InputKind::buffer);
  input("batch", InputKind::batch);
  input("between bodies", InputKind::saved);
  for (std::size_t i = 0; i < ir::kStorageCategories; ++i)
    rows.push_back(
        {std::string(ir::category_name(static_cast<StorageCategory>(i))), memory.report.peak_bytes[i]});
  rows.push_back({"fragmentation", memory.report.fragmentation_bytes()});
  return rows;
}

std::string improvement_text(const Improvement& i) {
  return fmt::format("{:>4} plans: {:>11} tokens/s, {:.1f} GiB: {}\n", i.plans,
                     grouped(static_cast<std::int64_t>(i.way.tokens_per_s)), gib(i.way.total_bytes),
                     fmt::join(i.way.flags, " "));
}

std::string plan_text(const JobPlan& p, bool verbose) {
  Lines lines;
  add_verdict(lines, p);
  add_job(lines, p);
  add_memory(lines, p);
  if (p.pipeline) add_pipeline(lines, p);
  add_collectives(lines, p);
  add_step(lines, p);
  if (verbose && p.device->is_gpu) add_launches(lines, p);
  add_runs(lines, p);
  if (verbose || !p.notes.empty()) lines.add("");
  for (const std::string& note : p.notes) lines.add("note: {}", note);
  if (!verbose) return lines.text();
  for (const std::string& note : p.pass_notes) lines.add("note: {}", note);
  lines.add("planned in {:.0f} ms: trace {:.0f}, passes {:.0f}, plan {:.0f}; {} nodes", p.times.total_ms(),
            p.times.model_ms + p.times.trace_ms, p.times.passes_ms, p.times.plan_ms,
            grouped(static_cast<std::int64_t>(p.times.nodes)));
  return lines.text();
}

std::string ways_text(const JobPlan& p, const SearchResult& search) {
  Lines lines;
  if (p.fits())
    add_faster_ways(lines, p, search);
  else
    add_ways_to_fit(lines, p, search);
  return lines.text();
}

}  // namespace rondo
