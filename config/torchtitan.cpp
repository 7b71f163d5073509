// Lists torchtitan's defaults only where ours differ; a test with all of them finds a missing one.
// Keys in a section that is switched off get no note: torchtitan does not read them either.
#include "config/torchtitan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "config/dump.h"
#include "config/schema/keys.h"

namespace rondo {
namespace {

bool is_in_section_that_is_off(const JobConfig& config, const std::string& key) {
  const auto section = std::find_if(sections().begin(), sections().end(),
                                    [&](const Section& it) { return it.name == section_of(key); });
  return section != sections().end() && section->is_off(config);
}

// Returns a note per reason, with the keys that torchtitan reads and Rondo ignores.
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

// Returns whether torchtitan trains the flavor with document masks although its name does not say
// so (attn_mask_type = "block_causal" in models/deepseek_v3/__init__.py).
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
      {"quantize.linear.float8.enable_fsdp_float8_all_gather", "false"},
      {"training.dataset", "\"c4_test\""},
      {"validation.dataset", "\"c4_validation\""},
      {"validation.steps", "-1"},
  };
  return list;
}

std::vector<std::string> torchtitan_notes(const JobConfig& config, const Origins& origins) {
  std::vector<std::string> notes = ineffective_keys(origins);
  const auto from_file = std::find_if(origins.torchtitans.begin(), origins.torchtitans.end(),
                                      [](const auto& it) { return !it.first.from_flag; });
  if (from_file == origins.torchtitans.end()) return notes;
  std::vector<std::string> differing;
  for (const OtherDefault& it : other_defaults())
    if (!origins.assigned.contains(it.key) && !is_in_section_that_is_off(config, it.key))
      differing.push_back(
          fmt::format("{} = {} (torchtitan: {})", it.key, to_toml(value_at(config, it.key)), it.theirs));
  constexpr const char* kDocuments = "training.document_attention";
  if (keeps_documents_apart(config.model) && !origins.assigned.contains(kDocuments))
    differing.push_back(fmt::format("{} = {} (torchtitan's {}: true)", kDocuments,
                                    to_toml(value_at(config, kDocuments)), config.model.flavor));
  if (!differing.empty())
    notes.push_back(
        fmt::format("{} is a key of torchtitan; these keys are not set and have other defaults here: {}",
                    from_file->first.key, fmt::join(differing, ", ")));
  return notes;
}

}  // namespace rondo
