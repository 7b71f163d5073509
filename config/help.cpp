// Builds each page from the tables of the reader, in the order of the table, so help and reader
// have the same keys. torchtitan's keys that Rondo does not have are listed separately.
#include "config/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "config/absent_features.h"
#include "config/schema/job_config.h"
#include "config/schema/keys.h"
#include "config/schema/unsupported.h"
#include "models/parts/model_spec.h"
#include "support/error.h"

namespace rondo {
namespace {

std::string default_text(const Field& field) {
  const std::string text = to_toml(field.default_value);
  return text.empty() ? "not set" : text;
}

std::string key_line(const Field& field) {
  return fmt::format("  {:<28} {}  [{}]\n", field.name, field.meaning, default_text(field));
}

std::string overview() {
  std::string out =
      "Sections of the configuration; in a TOML file [section] and key = value, as a flag "
      "--section.key=value:\n\n";
  for (const Section& section : sections())
    out += fmt::format("  {:<26} {}\n", section.name, section.meaning);
  return out +
         "\n`rondo help SECTION` lists its keys, `rondo help SECTION.KEY` explains one, `rondo help WORD` "
         "searches.\n";
}

std::string torchtitan_keys(const std::string& section) {
  std::vector<std::string> names;
  for (const UnsupportedKey& key : unsupported_keys())
    if (key.section == section || key.section.starts_with(section + "."))
      names.push_back(key.section.substr(section.size()) + "." + key.field.name);
  if (names.empty()) return "";
  for (std::string& name : names) name.erase(0, 1);
  return fmt::format(
      "\ntorchtitan's keys that are refused or without effect here; `rondo help SECTION.KEY` gives the "
      "reason:\n  {}\n",
      fmt::join(names, "\n  "));
}

std::string flavors_text(const ModelSpec& model) {
  std::vector<std::string> flavors;
  for (const Flavor& flavor : model.flavors) flavors.push_back(flavor.name);
  return fmt::format("flavors {}", fmt::join(flavors, ", "));
}

std::string model_page(const ModelSpec& model) {
  std::string out =
      fmt::format("name = \"{}\" in [model], {}; its sizes:\n\n", model.name, flavors_text(model));
  for (const Field& field : *model.fields) out += key_line(field);
  return out;
}

std::string section_page(const std::string& name) {
  std::string out = fmt::format("[{}]", name);
  for (const Section& section : sections())
    if (section.name == name) {
      out += fmt::format(": {}\n\n", section.meaning);
      for (const Field& field : *section.fields) out += key_line(field);
    }
  if (name == "model") {
    out += "\nModels; `rondo help NAME` lists the sizes of one:\n\n";
    for (const ModelSpec& model : model_specs())
      out += fmt::format("  {:<28} {}\n", model.name, flavors_text(model));
  }
  return out + torchtitan_keys(name);
}

std::string key_page(const std::string& key, const Field& field) {
  std::string out = key + "\n";
  const auto row = [&](const char* label, const std::string& text) {
    if (!text.empty()) out += fmt::format("  {:<8} {}\n", label, text);
  };
  row("meaning", field.meaning);
  row("type", std::string(type_name(field.type)) + (field.optional ? ", or not set" : ""));
  row("default", default_text(field));
  row("range", range_text(field));
  row("unit", field.rule.unit);
  if (!field.rule.unsupported.empty()) row("note", field.rule.unsupported + " not in this version");
  if (field.rule.flag_only) row("note", "only a flag, not a key of a file");
  return out;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

constexpr std::size_t kShortWord = 3;

std::string search_line(const std::string& name, const std::string& meaning) {
  return fmt::format("  {:<44} {}\n", name, meaning);
}

bool field_mentions(const Field& field, const std::string& word) {
  return mentions(field.name, word) || mentions(field.meaning, word) || mentions(range_text(field), word);
}

// Returns the models that the word names, and the sizes that mention it. A size that several models
// have is listed once.
std::string models_about(const std::string& word) {
  std::string name = word, out;
  std::replace(name.begin(), name.end(), '-', '_');
  for (const ModelSpec& model : model_specs())
    if (mentions(model.name, name) || mentions(flavors_text(model), name))
      out += search_line(model.name, flavors_text(model));
  std::set<std::string> listed;
  for (const ModelSpec& model : model_specs())
    for (const Field& field : *model.fields)
      if (field_mentions(field, word) && listed.insert(field.name).second)
        out += search_line("model." + field.name, field.meaning);
  return out;
}

}  // namespace

bool mentions(std::string_view text, std::string_view word) {
  const std::string in = lower(text), what = lower(word);
  const auto is_letter = [&](std::size_t at) {
    return at < in.size() && std::isalnum(static_cast<unsigned char>(in[at]));
  };
  for (std::size_t at = in.find(what); at != in.npos; at = in.find(what, at + 1)) {
    const bool begins = at == 0 || !is_letter(at - 1), ends = !is_letter(at + what.size());
    if (begins && (ends || what.size() > kShortWord)) return true;
  }
  return false;
}

std::string search_help(const std::string& word) {
  if (word.empty() || word.find('.') != word.npos) return "";
  std::string out;
  for (const AbsentFeature& feature : absent_features())
    if (std::find(feature.words.begin(), feature.words.end(), lower(word)) != feature.words.end())
      out += fmt::format("Not in Rondo: {}. {}\n", feature.name, feature.answer);
  std::string keys;
  for (const Section& section : sections()) {
    if (mentions(section.name, word) || mentions(section.meaning, word))
      keys += search_line(section.name, section.meaning);
    for (const Field& field : *section.fields)
      if (field_mentions(field, word)) keys += search_line(section.name + "." + field.name, field.meaning);
  }
  keys += models_about(word);
  if (!keys.empty())
    out += fmt::format("{}Keys that mention \"{}\":\n{}", out.empty() ? "" : "\n", word, keys);
  return out;
}

bool has_help_page(const std::string& topic) {
  return topic.empty() || is_section(topic) || known_field(topic) != nullptr ||
         find_model_spec(topic) != nullptr;
}

std::string help_page(const std::string& topic) {
  if (topic.empty()) return overview();
  if (is_section(topic)) return section_page(topic);
  if (const Field* field = known_field(topic)) return key_page(topic, *field);
  if (const ModelSpec* model = find_model_spec(topic)) return model_page(*model);
  throw Error(ExitCode::usage, fmt::format("nothing is known of \"{}\"{}; `rondo help` lists the sections",
                                           topic, suggest_key(topic)));
}

}  // namespace rondo
