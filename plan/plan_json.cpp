// The keys use the words of the text, with one object per group.
#include "plan/plan_json.h"

#include <nlohmann/json.hpp>

#include "plan/plan_text.h"

namespace rondo {
namespace {

using ir::CollectiveKind;
using ir::CostKind;

// Returns null for 0, which is an unknown price or power.
nlohmann::ordered_json known(double value) {
  return value > 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

nlohmann::ordered_json run_json(const RunEstimate& run) {
  return {{"steps", run.steps},        {"tokens", run.tokens},
          {"seconds", run.seconds},    {"device_hours", run.device_hours},
          {"price", known(run.price)}, {"energy_kwh", known(run.energy_kwh)}};
}

nlohmann::ordered_json memory_json(const JobPlan& p) {
  nlohmann::ordered_json rows;
  for (const MemoryRow& row : memory_rows(p.memory)) rows[row.name] = row.bytes;
  return {{"categories_bytes", rows},
          {"total_bytes", p.memory.total_bytes()},
          {"host_bytes", p.memory.host_total_bytes()},
          {"usable_bytes", p.usable_bytes},
          {"fits", p.fits()},
          {"peak_at", p.memory.report.peak_at}};
}

nlohmann::ordered_json step_json(const JobPlan& p) {
  nlohmann::ordered_json collectives;
  const auto totals_json = [](const ir::CollectiveTotals& c) {
    return nlohmann::ordered_json{{"count", c.count},
                                  {"bytes", c.bytes},
                                  {"sent_bytes", c.sent_bytes},
                                  {"seconds", c.seconds},
                                  {"exposed_s", c.exposed_s}};
  };
  for (const auto& [key, totals] : p.step.collectives) {
    nlohmann::ordered_json& kind_json = collectives[std::string(ir::collective_name(key.first))];
    if (kind_json.is_null()) kind_json = totals_json(p.step.of(key.first));
    kind_json["groups"][key.second] = totals_json(totals);
  }
  std::int64_t ops = 0;  // ops that take time on the device
  for (const CostKind kind : {CostKind::matmul, CostKind::attention, CostKind::memory, CostKind::launch})
    ops += p.step.of(kind).nodes;
  return {{"flops", p.step.flops},
          {"moved_bytes", p.step.moved_bytes},
          {"ops", ops},
          {"launches", {{"total", p.step.all_launches()}, {"by_op", p.step.launches}}},
          {"compute_s", p.step.compute_s},
          {"matmul_s", p.step.of(CostKind::matmul).seconds},
          {"attention_s", p.step.of(CostKind::attention).seconds},
          {"memory_s", p.step.of(CostKind::memory).seconds},
          {"launch_s", p.step.of(CostKind::launch).seconds},
          {"communication_s", p.step.communication_s()},
          {"exposed_s", p.step.exposed_s},
          {"slowed_s", p.step.slowed_s},
          {"transfers",
           {{"count", p.step.transfers.count},
            {"bytes", p.step.transfers.bytes},
            {"seconds", p.step.transfers.seconds},
            {"exposed_s", p.step.transfers.exposed_s}}},
          {"bubble_s", p.bubble_s},
          {"step_s", p.step_s()},
          {"collectives", collectives}};
}

nlohmann::ordered_json pipeline_json(const JobPlan& p) {
  const PipelinePlan& pipeline = *p.pipeline;
  nlohmann::ordered_json stages = nlohmann::ordered_json::array(), edges = stages, ranks = stages,
                         limits = stages;
  for (std::size_t i = 0; i < pipeline.layout.stages.size(); ++i) {
    const pipeline::StageTimes& times = pipeline.times.stages[i];
    stages.push_back({{"rank", pipeline.layout.program.rank_of_stage[i]},
                      {"layers", pipeline.layout.stages[i].layers},
                      {"in_flight", pipeline.layout.proof.in_flight.of_stage[i]},
                      {"pending", pipeline.layout.proof.in_flight.pending_of_stage[i]},
                      {"pending_bytes", pipeline.pending_bytes[i]},
                      {"forward_s", times.forward},
                      {"backward_input_s", times.backward_input},
                      {"backward_weight_s", times.backward_weight},
                      {"unshard_s", times.unshard}});
  }
  for (const pipeline::Edge& edge : pipeline.layout.proof.edges)
    edges.push_back({{"from", edge.from},
                     {"to", edge.to},
                     {"messages", edge.messages},
                     {"bytes", edge.messages * pipeline.message_bytes}});
  for (std::size_t rank = 0; rank < pipeline.bytes.size(); ++rank)
    ranks.push_back({{"total_bytes", pipeline.bytes[rank]},
                     {"compute_s", pipeline.computes[rank].step_s},
                     {"bubble_s", pipeline.bubble_s(rank)}});
  for (const PendingLimit& limit : pipeline.limits)
    limits.push_back({{"most", limit.most}, {"total_bytes", limit.bytes}, {"step_s", limit.step_s}});
  return {{"schedule", pipeline.schedule},
          {"layout", print_layout(pipeline.layers())},
          {"microbatches", pipeline.layout.program.microbatches},
          {"bubble_share", pipeline.bubble_share()},
          {"update_s", pipeline.update_s},
          {"message_bytes", pipeline.message_bytes},
          {"messages_s", pipeline.times.messages},
          {"stages", stages},
          {"ranks", ranks},
          {"max_pending_weight_gradients", limits},
          {"edges", edges}};
}

nlohmann::ordered_json way_json(const Way& way) {
  return {{"flags", way.flags},
          {"changes", way.changes},
          {"world_size", way.world},
          {"total_bytes", way.total_bytes},
          {"tokens_per_step", way.tokens_per_step},
          {"microbatches", way.microbatches},
          {"step_s", way.step_s},
          {"tokens_per_s", way.tokens_per_s}};
}

nlohmann::ordered_json ways_json(const std::vector<Way>& ways) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Way& way : ways) list.push_back(way_json(way));
  return list;
}

nlohmann::ordered_json search_json(const SearchResult& r) {
  nlohmann::ordered_json improvements = nlohmann::ordered_json::array();
  for (const Improvement& improvement : r.improvements) {
    improvements.push_back(way_json(improvement.way));
    improvements.back()["plans"] = improvement.plans;
    improvements.back()["cpu_s"] = improvement.cpu_s;
  }
  return {{"found", ways_json(r.same_training)},
          {"changing", ways_json(r.changed_training)},
          {"other_tokens", ways_json(r.other_tokens)},
          {"improvements", improvements},
          {"estimated", r.estimated},
          {"planned", r.planned},
          {"impossible", r.impossible},
          {"complete", r.is_complete},
          {"seconds", r.seconds},
          {"most_ranks", r.most_ranks},
          {"least_ranks_for_state", r.least_ranks_for_state}};
}

nlohmann::ordered_json plan_document(const JobPlan& p, const std::optional<SearchResult>& search) {
  std::vector<std::string> notes = p.notes;
  notes.insert(notes.end(), p.pass_notes.begin(), p.pass_notes.end());
  nlohmann::ordered_json document = {
      {"model", p.model},
      {"flavor", p.flavor},
      {"parameters", p.parameters},
      {"flops_per_token", p.flops_per_token},
      {"device", p.device->name},
      {"device_description", p.device->what},
      {"world_size", p.layout.mesh.world_size()},
      {"rank", p.rank},
  };
  for (const auto& [name, degree] : named_degrees(p.layout.mesh)) document[name] = degree;
  document.update(nlohmann::ordered_json{
      {"global_batch_size", p.layout.global_batch_size},
      {"microbatches", p.layout.microbatches},
      {"memory_policy", p.memory_policy},
      {"tokens_per_step", p.tokens_per_step},
      {"memory", memory_json(p)},
      {"remedies", search && !p.fits() ? search_json(*search) : nlohmann::ordered_json()},
      {"faster", search && p.fits() ? search_json(*search) : nlohmann::ordered_json()},
      {"pipeline", p.pipeline ? pipeline_json(p) : nlohmann::ordered_json()},
      {"step", step_json(p)},
      {"tokens_per_s_per_rank", p.tokens_per_s_per_rank()},
      {"tokens_per_s", p.tokens_per_s()},
      {"accuracy", p.device->is_gpu ? nlohmann::ordered_json{{"class", p.accuracy.of},
                                                             {"percent_of_80", p.accuracy.percent_of_80}}
                                    : nlohmann::ordered_json()},
      {"mfu_percent", p.mfu_percent()},
      {"causal_mfu_percent", p.causal_mfu_percent()},
      {"hfu_percent", p.hfu_percent()},
      {"bound", p.bound()},
      {"most_tokens_per_s_per_rank", p.most_tokens_per_s_per_rank()},
      {"most_mfu_percent", p.most_mfu_percent()},
      {"run", run_json(p.run(p.steps))},
      {"optimal_run", run_json(p.optimal_run())},
      {"price_per_billion_tokens", known(p.price_per_billion_tokens())},
      {"checkpoint", {{"full_bytes", p.checkpoint.full}, {"weights_bytes", p.checkpoint.weights}}},
      {"times_ms",
       {{"model", p.times.model_ms},
        {"trace", p.times.trace_ms},
        {"passes", p.times.passes_ms},
        {"plan", p.times.plan_ms},
        {"total", p.times.total_ms()}}},
      {"nodes", p.times.nodes},
      {"notes", notes}});
  return document;
}

}  // namespace

std::string plan_json(const JobPlan& plan, const std::optional<SearchResult>& search) {
  return plan_document(plan, search).dump(2) + "\n";
}

std::string plans_json(const std::vector<JobPlan>& plans) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const JobPlan& plan : plans) list.push_back(plan_document(plan, std::nullopt));
  return nlohmann::ordered_json{{"plans", list}}.dump(2) + "\n";
}

}  // namespace rondo
