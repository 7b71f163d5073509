// The matrix combines each way to train (prove/ways.h) with some layouts; the random cases draw
// several at once.
#include "prove/proof_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "config/derived/pipeline_layout.h"
#include "config/schema/keys.h"
#include "models/parts/model_spec.h"
#include "prove/ways.h"
#include "support/error.h"
#include "support/flags/flag_values.h"
#include "support/text/nearest.h"
#include "support/text/numbers.h"

namespace rondo {
namespace {

constexpr const char *kOneRank = "one rank", *kAccumulate = "accumulate";
constexpr std::int64_t kSequences = 24;  // divisible by 2, 3, 4, 6 and 8 ranks

// The members of the layout with the degrees of kDegrees, in the same order.
constexpr std::int64_t ProofLayout::*kMembers[] = {
    &ProofLayout::pipeline, &ProofLayout::replicate, &ProofLayout::shard,        &ProofLayout::context,
    &ProofLayout::tensor,   &ProofLayout::experts,   &ProofLayout::expert_tensor};
static_assert(std::size(kMembers) == std::size(kDegrees));

// Returns the member that the text of a layout calls `name`; nullptr for another name.
std::int64_t ProofLayout::*member_of(const std::string& name) {
  for (std::size_t i = 0; i < std::size(kDegrees); ++i)
    if (name == axis_name(kDegrees[i].axis)) return kMembers[i];
  return name == kAccumulate ? &ProofLayout::microbatches : nullptr;
}

std::string read_layout(const std::string& text, ProofLayout& layout) {
  layout = {};
  if (text == kOneRank) return "";
  for (const std::string& word : split(text, ',')) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (equals == word.npos && !layout.settings.empty()) {  // another element of a list
      layout.settings.back() += "," + word;
      continue;
    }
    const std::string value = equals == word.npos ? "" : word.substr(equals + 1);
    if (name.find('.') != name.npos) {
      if (known_field(name) == nullptr)
        return fmt::format("has the unknown key {}{}", name, suggest_key(name));
      layout.settings.push_back(word);
      continue;
    }
    const auto member = member_of(name);
    const auto degree = number_in<std::int64_t>(value, 1, 64);
    if (member == nullptr || !degree || layout.*member != 1)
      return "must be like dp_replicate=2,dp_shard=2,tp=2,ep=4,accumulate=2, each at most once, or one rank; "
             "and keys of the configuration, such as compile.memory_policy=full";
    layout.*member = *degree;
  }
  if (layout.expert_tensor != 1 && layout.expert_tensor != layout.tensor)
    return fmt::format("has etp={}, which must be 1, or tp = {}", layout.expert_tensor, layout.tensor);
  if (layout.expert_ranks() % layout.experts != 0)
    return fmt::format("has ep={}, which must divide dp_shard * cp{} = {}", layout.experts,
                       layout.expert_tensor > 1 ? "" : " * tp", layout.expert_ranks());
  return "";
}

ProofLayout with(ProofLayout layout, const std::string& way) {
  for (const std::string& setting : split(way, ' ')) layout.settings.push_back(setting);
  return layout;
}

std::vector<ProofLayout> all_degrees(const JobConfig& job, std::int64_t most_ranks) {
  std::vector<ProofLayout> layouts;
  for (std::int64_t ranks = 1; ranks <= most_ranks; ++ranks)
    for (std::int64_t replicate = 1; replicate <= ranks; ++replicate)
      for (std::int64_t context = 1; context <= ranks / replicate; ++context)
        for (std::int64_t tensor = 1; tensor <= ranks; ++tensor)
          for (std::int64_t experts = 1; experts <= ranks; ++experts) {
            const std::int64_t others = replicate * context * tensor;
            if (ranks % others != 0) continue;
            ProofLayout layout{replicate, ranks / others, context, tensor, experts};
            if (has_layout(job, layout)) layouts.push_back(layout);
            layout.expert_tensor = tensor;
            if (tensor > 1 && has_layout(job, layout)) layouts.push_back(layout);
          }
  return layouts;
}

// Returns pipelines over each layout, with enough microbatches to fill them.
std::vector<ProofLayout> pipelines_of(const JobConfig& job, const std::vector<ProofLayout>& layouts,
                                      std::int64_t most_ranks) {
  std::vector<ProofLayout> pipelines;
  for (ProofLayout layout : layouts)
    for (const std::int64_t ranks : {2, 3, 4}) {
      layout.pipeline = 1;
      if (layout.ranks() * ranks > most_ranks) break;
      layout.pipeline = ranks;
      layout.microbatches = 4;
      if (has_layout(job, layout)) pipelines.push_back(layout);
    }
  return pipelines;
}

// Returns layouts with either exchange if they divide experts, and also by heads if they
// divide sequences.
std::vector<ProofLayout> with_exchanges(const JobConfig& job, const std::vector<ProofLayout>& layouts) {
  std::vector<ProofLayout> variants;
  for (const ProofLayout& layout : layouts) {
    variants.push_back(layout);
    if (layout.experts > 1) variants.push_back(with(layout, kStandardExchange));
    if (layout.context > 1 && has_layout(job, with(layout, kHeads))) variants.push_back(with(layout, kHeads));
  }
  return variants;
}

// Returns a number of microbatches that divides a step of 24 sequences.
std::int64_t microbatches_of(const ProofLayout& layout) {
  return kSequences % (2 * layout.data()) != 0 && kSequences % (3 * layout.data()) == 0 ? 3 : 2;
}

}  // namespace

std::vector<std::pair<std::string, std::int64_t>> ProofLayout::degrees() const {
  std::vector<std::pair<std::string, std::int64_t>> list;
  for (std::size_t i = 0; i < std::size(kDegrees); ++i)
    if (this->*kMembers[i] > 1) list.emplace_back(axis_name(kDegrees[i].axis), this->*kMembers[i]);
  return list;
}

std::string ProofLayout::text() const {
  std::vector<std::string> words;
  for (const auto& [name, degree] : degrees()) words.push_back(fmt::format("{}={}", name, degree));
  if (microbatches > 1) words.push_back(fmt::format("{}={}", kAccumulate, microbatches));
  words.insert(words.end(), settings.begin(), settings.end());
  return words.empty() ? kOneRank : fmt::format("{}", fmt::join(words, ","));
}

std::vector<std::string> ProofLayout::flags(std::int64_t global_batch) const {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < std::size(kDegrees); ++i)
    words.push_back(fmt::format("--parallelism.{}={}", degree_key(kDegrees[i].axis), this->*kMembers[i]));
  words.push_back(fmt::format("--training.global_batch_size={}", global_batch));
  words.push_back(fmt::format("--training.local_batch_size={}", global_batch / (data() * microbatches)));
  if (pipeline > 1)
    words.push_back(fmt::format("--parallelism.pipeline_parallel_microbatch_size={}",
                                global_batch / (data() * microbatches)));
  for (const std::string& setting : settings) words.push_back("--" + setting);
  return words;
}

std::string ProofCase::text() const {
  std::vector<std::string> words;
  for (const ProofLayout& layout : layouts) words.push_back(layout.text());
  return fmt::format("{}", fmt::join(words, "/"));
}

std::int64_t ProofCase::ranks() const {
  std::int64_t most = 1;
  for (const ProofLayout& layout : layouts) most = std::max(most, layout.ranks());
  return most;
}

std::int64_t ProofCase::global_batch() const {
  std::int64_t unit = 1;
  for (const ProofLayout& layout : layouts) unit = std::lcm(unit, layout.data() * layout.microbatches);
  return kSequences % unit == 0 ? kSequences : 3 * unit;
}

std::vector<std::string> ProofCase::common_settings() const {
  std::vector<std::string> common;
  for (const std::string& setting : layouts[0].settings) {
    const std::string section(section_of(setting.substr(0, setting.find('='))));
    if (section != "compile" && section != "parallelism" && section != "activation_checkpoint")
      common.push_back(setting);
  }
  return common;
}

std::string read_case(const std::string& text, ProofCase& read) {
  read.layouts.clear();
  for (const std::string& part : split(text, '/')) {
    read.layouts.emplace_back();
    if (std::string problem = read_layout(part, read.layouts.back()); !problem.empty()) return problem;
  }
  return read.layouts.size() > 2 ? "must be one layout, or two with a / between" : "";
}

bool has_layout(const JobConfig& job, const ProofLayout& layout) {
  JobConfig config = job;
  config.parallelism.pipeline_parallel_degree = layout.pipeline;
  config.parallelism.expert_parallel_degree = layout.experts;
  config.parallelism.expert_tensor_parallel_degree = layout.expert_tensor;
  if (std::find(layout.settings.begin(), layout.settings.end(), kHeads) != layout.settings.end())
    config.parallelism.context_parallel_rotate_method = ContextExchange::all_to_all;
  return layout.expert_ranks() % layout.experts == 0 &&
         broken_shares(config, {layout.tensor, layout.context}).empty() &&
         broken_pipeline(config, layout.microbatches).empty();
}

std::vector<ProofCase> all_layouts(const JobConfig& job, std::int64_t most_ranks) {
  std::vector<ProofLayout> layouts = with_exchanges(job, all_degrees(job, most_ranks));
  const std::vector<ProofLayout> pipelines = pipelines_of(job, layouts, most_ranks);
  layouts.insert(layouts.end(), pipelines.begin(), pipelines.end());
  std::vector<ProofCase> cases;
  for (const ProofLayout& layout : layouts) cases.push_back({{layout}});
  return cases;
}

std::vector<ProofCase> all_cases(const JobConfig& job, std::int64_t most_ranks) {
  std::vector<ProofCase> cases = all_layouts(job, most_ranks);
  std::vector<ProofLayout> layouts;
  for (const ProofCase& alone : cases) layouts.push_back(alone.layouts[0]);
  for (ProofLayout layout : layouts) {
    if (layout.pipeline > 1 || (layout.context > 1 && layout.ranks() > 4)) continue;
    layout.microbatches = microbatches_of(layout);
    cases.push_back({{layout}});
  }
  // Combines every way with every third layout, starting at another layout for each way.
  const auto cross = [&](const Ways& ways, const std::vector<ProofLayout>& with_them) {
    for (std::size_t way = 0; way < ways.size(); ++way)
      for (std::size_t i = way % 3; i < with_them.size(); i += 3) {
        ProofLayout layout = with(with_them[i], ways[way]);
        if (i % 2 == 1 && layout.pipeline == 1) layout.microbatches = microbatches_of(layout);
        cases.push_back({{layout}});
      }
  };
  std::vector<ProofLayout> small, expert_layouts, context_layouts, pipeline_layouts;
  for (const ProofLayout& layout : layouts) {
    if (layout.pipeline > 1) {
      if (layout.pipeline == 2 && layout.ranks() <= 4) pipeline_layouts.push_back(layout);
      continue;
    }
    if (layout.context > 1) {
      const bool plain = layout.settings.empty() && has_layout(job, with(layout, kHeads));
      if (plain && layout.ranks() <= 4) context_layouts.push_back(layout);
      continue;
    }
    if (layout.ranks() <= 4 || layout.experts == 4) small.push_back(layout);
    if (layout.tensor > 1) cases.push_back({{with(layout, kPieces)}});
    if (layout.experts > 1) expert_layouts.push_back(layout);
    if (layout.experts > 1 && layout.settings.empty()) cases.push_back({{with(layout, kSentTerms)}});
  }
  cross(ways_of(job), small);
  if (job.optimizer.name != OptimizerName::muon)
    for (const auto* with_muon : {&small, &context_layouts, &pipeline_layouts})
      cross({kMuon, kMuon + " compile.enable=false", kMuon + " compile.numerics=rounds"}, *with_muon);
  cross(ways_of_context(), context_layouts);
  cross(ways_of_pipelines(), pipeline_layouts);
  std::vector<ProofLayout> microbatch_layouts = small;
  microbatch_layouts.insert(microbatch_layouts.end(), context_layouts.begin(), context_layouts.end());
  for (ProofLayout& layout : microbatch_layouts) layout.microbatches = microbatches_of(layout);
  cross({kSyncOnce, kSyncOnce + " compile.memory_policy=full parallelism.fsdp_reshard_after_forward=always",
         kSyncOnce + " compile.disable_passes=transformer_block_bucketing",
         kSyncOnce + " compile.numerics=rounds",
         kSyncOnce + " compile.enable=false parallelism.fsdp_reshard_after_forward=never",
         kSyncOnce + " compile.enable=false activation_checkpoint.mode=full"},
        microbatch_layouts);
  cross({kBounded, kBounded + " compile.memory_policy=full", kBounded + " compile.numerics=rounds"},
        expert_layouts);
  for (std::size_t i = 0; i < context_layouts.size(); i += 2) {
    cases.push_back({{context_layouts[i], small[i % small.size()]}});
    cases.push_back({{small[i % small.size()], context_layouts[i]}});
  }
  for (std::size_t i = 0; i < small.size() / 2; i += 2) {
    cases.push_back({{small[i], small[small.size() - 1 - i]}});
    cases.push_back({{small[small.size() - 1 - i], small[i]}});
  }
  return cases;
}

std::vector<ProofCase> random_cases(const JobConfig& job, std::int64_t most_ranks, std::int64_t count,
                                    std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  const std::vector<ProofLayout> degrees = all_degrees(job, most_ranks);
  const Ways ways = ways_of(job);
  const auto draw = [&](bool documents) {
    ProofLayout layout = degrees[below(degrees.size())];
    if (layout.context > 1 && below(3) == 0 && has_layout(job, with(layout, kHeads)))
      layout = with(layout, kHeads);
    if (layout.experts > 1 && below(2) == 0) layout = with(layout, kStandardExchange);
    if (layout.experts > 1 && below(3) == 0) layout = with(layout, kBounded);
    if (below(2) == 0) layout.microbatches = microbatches_of(layout);
    if (documents) layout = with(layout, ways[0]);
    // At most two ways, of different keys; an eager run combines with no other.
    std::vector<std::string> keys;
    for (int i = 0; i < 2; ++i) {
      const std::string way = ways[1 + below(ways.size() - 1)];
      const bool eager = way.starts_with("compile.enable=");
      const std::string key = way.substr(0, way.find('='));
      if (std::find(keys.begin(), keys.end(), key) != keys.end() || (eager && i > 0)) continue;
      layout = with(layout, way);
      keys.push_back(key);
      if (eager) break;
    }
    if (layout.microbatches > 1 && below(3) == 0) layout = with(layout, kSyncOnce);
    return layout;
  };
  std::vector<ProofCase> cases;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool documents = below(2) == 0;
    ProofCase one{{draw(documents)}};
    if (below(5) == 0) one.layouts.push_back(draw(documents));
    cases.push_back(std::move(one));
  }
  return cases;
}

ProofLayout shrunk_layout(const Layout& layout) {
  const auto shrunk = [](std::int64_t degree) { return degree == 1 ? 1 : degree % 2 == 0 ? 2 : 3; };
  const Mesh& mesh = layout.mesh;
  ProofLayout small;
  small.pipeline = std::min<std::int64_t>(mesh.degree(Axis::pp), 2);
  small.replicate = shrunk(mesh.degree(Axis::dp_replicate));
  small.shard = shrunk(mesh.degree(Axis::dp_shard));
  small.context = shrunk(mesh.degree(Axis::cp));
  small.tensor = shrunk(mesh.degree(Axis::tp));
  while (small.ranks() > 8)
    for (std::int64_t* degree : {&small.replicate, &small.shard, &small.context, &small.tensor})
      if (*degree == 3 && small.ranks() > 8) *degree = 2;
  if (mesh.degree(Axis::etp) > 1) small.expert_tensor = small.tensor;
  const std::int64_t experts = mesh.degree(Axis::ep), ranks = small.expert_ranks();
  if (experts > 1) small.experts = mesh.degree(Axis::efsdp) == 1 || ranks < 4 ? ranks : 2;
  small.microbatches = std::min<std::int64_t>(layout.microbatches, 2 * small.pipeline);
  return small;
}

}  // namespace rondo
