#include "trainer/config/schema/value_checks.h"

#include <algorithm>
#include <filesystem>

namespace rondo {

std::string not_empty(const FieldValue& value) {
  return std::get<std::string>(value).empty() ? "must not be empty" : "";
}

std::string not_one(const FieldValue& value) {
  return std::get<std::int64_t>(value) == 1 ? "must not be 1: the newest may prove damaged" : "";
}

std::string plain_subfolder(const FieldValue& value) {
  const std::filesystem::path path = std::get<std::string>(value);
  const bool climbs = std::find(path.begin(), path.end(), "..") != path.end();
  return path.empty() || path.is_absolute() || climbs ? "must be a folder below job.dump_folder" : "";
}

std::string file_name(const FieldValue& value) {
  const bool climbs = std::get<std::string>(value).find('/') != std::string::npos;
  return climbs ? "must be the beginning of a file's name, without /" : "";
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
      return "must hold entries like layers.*.attention::aten.mm.default, and \"" + text + "\" is none";
  }
  return "";
}

std::string patterns(const FieldValue& value) {
  for (const std::string& text : std::get<std::vector<std::string>>(value))
    if (text.empty() || text.starts_with('|') || text.ends_with('|') || text.find("||") != std::string::npos)
      return "must hold patterns of parameter names separated by |, and \"" + text + "\" has an empty one";
  return "";
}

std::string minus_one_or_positive(const FieldValue& value) {
  return std::get<std::int64_t>(value) == 0 ? "must be -1 or at least 1" : "";
}

}  // namespace rondo
