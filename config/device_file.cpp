#include "config/device_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <vector>

#include "config/read/assignment.h"
#include "support/text/nearest.h"

namespace rondo {
namespace {

constexpr const char* kBase = "base";

// Returns the card of the table that `base` names, or nullptr and a problem.
const ir::Card* base_of(const Assignment& assignment, Problems& problems) {
  std::vector<std::string> names;
  for (const ir::Card& card : ir::cards()) names.push_back(card.name);
  const auto* name = std::get_if<std::string>(&assignment.value);
  const auto match = std::find(names.begin(), names.end(), name == nullptr ? "" : *name);
  if (match != names.end()) return &ir::cards()[static_cast<std::size_t>(match - names.begin())];
  problems.add(assignment.place, fmt::format("{}: must be a GPU of `rondo plan --device`{}", assignment.shown,
                                             name == nullptr ? "" : did_you_mean(*name, names)));
  return nullptr;
}

void assign(const Assignment& assignment, ir::Card& card, Problems& problems) {
  const Fields& fields = ir::Card::fields();
  if (const Field* field = find_field(fields, assignment.key)) {
    std::string rule;
    const FieldValue value = read_value(assignment, *field, rule);
    if (rule.empty()) rule = broken_rule(*field, value);
    if (rule.empty()) return field->set(&card, value);
    return problems.add(assignment.place, assignment.shown + ": " + rule);
  }
  std::vector<std::string> names = {kBase};
  for (const Field& field : fields) names.push_back(field.name);
  problems.add(assignment.place,
               fmt::format("{}: unknown key{}", assignment.shown, did_you_mean(assignment.key, names)));
}

}  // namespace

ir::DeviceModel read_device_file(const std::string& path, const std::string& place) {
  Problems problems;
  const std::vector<Assignment> assignments = read_toml_file(path, place, problems);
  problems.throw_if_any();
  ir::Card card;
  std::set<std::string> keys;
  for (const Assignment& assignment : assignments) keys.insert(assignment.key);
  for (const Assignment& assignment : assignments)
    if (assignment.key == kBase)
      if (const ir::Card* base = base_of(assignment, problems)) {
        card = *base;
        card.also = card.reported = "";
      }
  for (const Assignment& assignment : assignments)
    if (assignment.key != kBase) assign(assignment, card, problems);
  std::vector<std::string> missing;
  if (!keys.contains(kBase))
    for (const Field& field : ir::Card::fields())
      if (!keys.contains(field.name) && !broken_rule(field, field.default_value).empty())
        missing.push_back(field.name);
  if (!missing.empty())
    problems.add(path, fmt::format("lacks {}; give them, or base = \"h100\" for the figures of a known GPU",
                                   fmt::join(missing, ", ")));
  problems.throw_if_any();
  if (card.description.empty()) card.description = card.name;
  return ir::device_model(card);
}

}  // namespace rondo
