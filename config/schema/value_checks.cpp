#include "config/schema/value_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "config/schema/bucket_patterns.h"
#include "config/schema/parameter_groups.h"
#include "config/schema/step_ranges.h"
#include "parallel/pipeline/layers.h"
#include "parallel/pipeline/schedules.h"
#include "support/text/nearest.h"

namespace rondo {

std::string not_empty(const FieldValue& value) {
  return std::get<std::string>(value).empty() ? "must not be empty" : "";
}

std::string not_one(const FieldValue& value) {
  return std::get<std::int64_t>(value) == 1 ? "must not be 1: the newest checkpoint may be damaged" : "";
}

std::string plain_subfolder(const FieldValue& value) {
  const std::filesystem::path path = std::get<std::string>(value);
  const bool climbs = std::find(path.begin(), path.end(), "..") != path.end();
  return path.empty() || path.is_absolute() || climbs ? "must be a folder below job.dump_folder" : "";
}

std::string own_subfolder(const FieldValue& value) {
  const std::filesystem::path path = std::get<std::string>(value);
  const bool is_itself =
      std::all_of(path.begin(), path.end(), [](const auto& part) { return part == "." || part.empty(); });
  return is_itself ? "must be a folder below job.dump_folder, not the folder itself" : plain_subfolder(value);
}

std::string run_folder(const FieldValue& value) {
  const std::filesystem::path path = std::filesystem::path(std::get<std::string>(value)).lexically_normal();
  if (path.is_absolute() && path.relative_path().empty())
    return "must be a folder of the run, not the root folder";
  return not_empty(value);
}

std::string file_name(const FieldValue& value) {
  const bool climbs = std::get<std::string>(value).find('/') != std::string::npos;
  return climbs ? "must be a prefix of a file name, without /" : "";
}

std::string known_converters(const FieldValue& value) {
  for (const std::string& name : std::get<std::vector<std::string>>(value)) {
    if (name == "float8" || name == "quantize.linear.float8" || name == "quantize.linear.mx" ||
        name == "quantize.linear.nvfp4" || name == "quantize.grouped_mm.float8" ||
        name == "quantize.grouped_mm.mx")
      continue;
    const bool later = name.starts_with("quantize.");
    return fmt::format(
        "must be [\"float8\"] or empty, or have \"quantize.linear.mx\", "
        "\"quantize.linear.nvfp4\", \"quantize.grouped_mm.float8\" or \"quantize.grouped_mm.mx\"{}",
        later ? "; \"" + name + "\" needs a feature that is not in this version" : "");
  }
  return "";
}

std::string excludable(const FieldValue& value) {
  for (const std::string& part : std::get<std::vector<std::string>>(value))
    if (part != "optimizer" && part != "lr_scheduler" && part != "dataloader" && part != "train_state")
      return "must hold only optimizer, lr_scheduler, dataloader and train_state";
  return "";
}

std::string selectors(const FieldValue& value) {
  for (const std::string& text : std::get<std::vector<std::string>>(value)) {
    const std::size_t colons = text.find("::");
    const bool whole =
        colons != std::string::npos && colons > 0 &&
        std::count(text.begin() + static_cast<std::ptrdiff_t>(colons) + 2, text.end(), '.') == 2;
    if (!whole)
      return "must hold entries like layers.*.attention::aten.mm.default, but \"" + text + "\" is not one";
  }
  return "";
}

std::string buckets(const FieldValue& value) {
  std::string rule;
  read_buckets(std::get<std::vector<std::string>>(value), &rule);
  return rule;
}

std::string groups_of_parameters(const FieldValue& value) {
  std::string rule;
  read_parameter_groups(std::get<std::vector<std::string>>(value), &rule);
  return rule;
}

std::string ranges_of_steps(const FieldValue& value) {
  std::string rule;
  read_step_ranges(std::get<std::vector<std::string>>(value), &rule);
  return rule;
}

std::string named_paths(const FieldValue& value) {
  std::set<std::string> names;
  for (const std::string& text : std::get<std::vector<std::string>>(value)) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == text.size())
      return "must hold entries like c4=/data/c4, but \"" + text + "\" is not one";
    if (!names.insert(text.substr(0, equals)).second)
      return "must name a data set once, but \"" + text.substr(0, equals) + "\" has two paths";
  }
  return "";
}

std::string minus_one_or_positive(const FieldValue& value) {
  return std::get<std::int64_t>(value) == 0 ? "must be -1 or at least 1" : "";
}

std::string op_or_number(const FieldValue& value) {
  const auto& text = std::get<std::string>(value);
  const bool number = !text.empty() && text.size() < 10 && text[0] != '0' &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  return text == "op" || number ? "" : "must be \"op\" or a number of at least 1, as text";
}

bool is_schedule_of_csv(const std::string& name) {
  return name == "PipelineScheduleSingle" || name == "PipelineScheduleMulti" ||
         name == "_PipelineScheduleRuntime";
}

std::string schedule_of_pipeline(const FieldValue& value) {
  const auto& name = std::get<std::string>(value);
  if (pipeline::find_schedule(name) != nullptr || is_schedule_of_csv(name)) return "";
  std::vector<std::string> names;
  for (const pipeline::Schedule& schedule : pipeline::schedules()) names.push_back(schedule.name);
  return fmt::format("must be one of {}{}", fmt::join(names, ", "), did_you_mean(name, names));
}

std::string layout_of_pipeline(const FieldValue& value) {
  const auto& text = std::get<std::string>(value);
  std::vector<pipeline::StageLayers> stages;
  return text.empty() ? "" : pipeline::read_layout(text, stages);
}

}  // namespace rondo
