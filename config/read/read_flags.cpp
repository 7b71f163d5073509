#include <fmt/format.h>

#include <algorithm>

#include "config/read/assignment.h"
#include "config/schema/keys.h"
#include "support/utf8.h"

namespace rondo {
namespace {

bool is_flag(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }

bool is_boolean_text(const std::string& word) { return word == "true" || word == "false"; }

// Resolves `--section.no-key` and `--no-section.key` to a negated key, unless a key has that name.
void undo_negation(Assignment& assignment) {
  if (known_field(assignment.key)) return;
  const std::size_t dot = assignment.key.rfind('.');
  for (const std::size_t at : {std::size_t{0}, dot == std::string::npos ? 0 : dot + 1}) {
    if (assignment.key.compare(at, 3, "no_") != 0) continue;
    std::string key = assignment.key;
    key.erase(at, 3);
    if (known_field(key) == nullptr) continue;
    assignment.key = key;
    assignment.negated = true;
    return;
  }
}

// Returns whether the flag takes the next word as its value. A boolean takes only "true" or
// "false"; other keys take any word that is not a flag.
bool takes(const Assignment& assignment, const std::string& next) {
  const Field* field = known_field(assignment.key);
  if (assignment.negated || (field && field->type == FieldType::boolean)) return is_boolean_text(next);
  return !is_flag(next);
}

}  // namespace

std::vector<Assignment> read_flags(const std::vector<std::string>& words, Problems& problems) {
  std::vector<Assignment> assignments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!is_valid_utf8(word)) {
      problems.add("command line", fmt::format("word {} is not valid UTF-8", i + 1));
      continue;
    }
    const std::size_t equals = word.find('=');
    Assignment assignment;
    assignment.place = "command line";
    assignment.shown = word;
    assignment.from_flag = true;
    if (!is_flag(word)) {
      if (known_field(std::string_view(word).substr(0, equals)) != nullptr || word.starts_with('-')) {
        problems.add("command line", word + ": expected a flag, --section.key=value");
        continue;
      }
      assignment.key = "job.config_file";
      assignment.flag_text = word;
      assignments.push_back(std::move(assignment));
      continue;
    }
    assignment.key = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(assignment.key.begin(), assignment.key.end(), '-', '_');
    undo_negation(assignment);
    if (equals != std::string::npos) {
      assignment.flag_text = word.substr(equals + 1);
    } else if (i + 1 < words.size() && is_valid_utf8(words[i + 1]) && takes(assignment, words[i + 1])) {
      assignment.flag_text = words[++i];
      assignment.shown += " " + assignment.flag_text;
    } else {
      assignment.flag_without_text = true;
    }
    assignments.push_back(std::move(assignment));
  }
  return assignments;
}

}  // namespace rondo
