// torchtitan's defaults are listed only where ours differ; a test that has all of them finds one that is
// missing. Keys behind a switch that has to be off are not told: torchtitan does not read them either.
#include "config/torchtitan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "config/dump.h"
#include "config/schema/keys.h"

namespace rondo {
namespace {

bool of_section_that_is_off(const JobConfig& config, const std::string& key) {
  const auto section = std::find_if(sections().begin(), sections().end(),
                                    [&](const Section& one) { return one.name == section_of(key); });
  return section != sections().end() && section->is_off(config);
}

// Keys that torchtitan would heed, by the reason why nothing here does.
std::vector<std::string> ineffective_keys(const Origins& origins) {
  std::map<std::string, std::vector<std::string>> keys_by_reason;
  for (const auto& [assignment, key] : origins.torchtitans)
    if (key->fate == Fate::without_effect &&
        (assignment.from_flag || assignment.value != key->field.default_value))
      keys_by_reason[key->reason].push_back(assignment.key);
  std::vector<std::string> notes;
  for (const auto& [reason, keys] : keys_by_reason)
    notes.push_back(fmt::format("without effect: {} ({})", fmt::join(keys, ", "), reason));
  return notes;
}

// Flavors that torchtitan trains with documents kept apart, though their names do not say so
// (attn_mask_type = "block_causal" in its models/deepseek_v3/__init__.py).
bool keeps_documents_apart(const Model& model) {
  return model.name == "deepseek_v3" &&
         (model.flavor == "16B" || model.flavor == "236B" || model.flavor == "671B");
}

}  // namespace

const std::vector<OtherDefault>& other_defaults() {
  static const std::vector<OtherDefault> list = {
      {"activation_checkpoint.mode", "\"selective\""},
      {"activation_checkpoint.selective_ac_option", "\"2\""},
      {"checkpoint.last_save_model_only", "true"},
      {"compile.enable", "false"},
      {"debug.seed", "not set"},
      {"model.hf_assets_path", "\"./tests/assets/tokenizer\""},
      {"parallelism.expert_parallel_comm_backend", "\"standard\""},
      {"training.dataset", "\"c4_test\""},
      {"validation.dataset", "\"c4_validation\""},
      {"validation.steps", "-1"},
  };
  return list;
}

std::vector<std::string> torchtitan_notes(const JobConfig& config, const Origins& origins) {
  std::vector<std::string> notes = ineffective_keys(origins);
  const auto from_file = std::find_if(origins.torchtitans.begin(), origins.torchtitans.end(),
                                      [](const auto& one) { return !one.first.from_flag; });
  if (from_file == origins.torchtitans.end()) return notes;
  std::vector<std::string> differing;
  for (const OtherDefault& one : other_defaults())
    if (!origins.assigned.contains(one.key) && !of_section_that_is_off(config, one.key))
      differing.push_back(
          fmt::format("{} = {} (torchtitan: {})", one.key, to_toml(value_at(config, one.key)), one.theirs));
  constexpr const char* kDocuments = "training.document_attention";
  if (keeps_documents_apart(config.model) && !origins.assigned.contains(kDocuments))
    differing.push_back(fmt::format("{} = {} (torchtitan's {}: true)", kDocuments,
                                    to_toml(value_at(config, kDocuments)), config.model.flavor));
  if (!differing.empty())
    notes.push_back(
        fmt::format("{} is a key of torchtitan's; keys that its files leave out have other defaults here: {}",
                    from_file->first.key, fmt::join(differing, ", ")));
  return notes;
}

}  // namespace rondo
