#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "config/read/assignment.h"
#include "config/schema/keys.h"
#include "support/text/nearest.h"
#include "support/text/toml.h"

namespace rondo {
namespace {

constexpr std::uintmax_t kMaxBytes = 1 << 20;

const char* kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      return "a date or time";
    default:
      return "no value";
  }
}

// Converts a TOML value. Returns std::monostate if no field has its type.
FieldValue value_of(const toml::node& node) {
  if (const auto* boolean = node.as_boolean()) return boolean->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* text = node.as_string()) return text->get();
  const toml::array* array = node.as_array();
  if (array == nullptr) return {};
  std::vector<double> numbers;
  std::vector<std::string> texts;  // an empty list becomes a list of texts
  for (const toml::node& item : *array) {
    if (const auto* text = item.as_string()) texts.push_back(text->get());
    if (const auto number = item.value<double>()) numbers.push_back(*number);
  }
  if (texts.size() == array->size()) return texts;
  if (numbers.size() == array->size()) return numbers;
  return {};
}

// Joins [["a", "b"], ["c"]] to ["a+b", "c"]. Returns std::monostate for anything else.
FieldValue joined_lists(const toml::node& node) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return {};
  std::vector<std::string> joined;
  for (const toml::node& item : *array) {
    if (!item.is_array()) return {};
    const FieldValue inner = value_of(item);
    const auto* texts = std::get_if<std::vector<std::string>>(&inner);
    if (texts == nullptr) return {};
    joined.push_back(fmt::format("{}", fmt::join(*texts, "+")));
  }
  return joined;
}

class Flatten {
 public:
  explicit Flatten(std::string name) : name_(std::move(name)) {}

  void table(const toml::table& table, const std::string& prefix) {
    for (const auto& [key, node] : table) {
      const std::string path = prefix + std::string(key.str());
      const toml::table* inner = node.as_table();
      if (inner != nullptr && is_section(path))
        this->table(*inner, path + ".");
      else
        leaf(path, key.source().begin, node);
    }
  }

  // Restores the order of the file, since toml++ sorts keys.
  std::vector<Assignment> in_file_order() {
    std::stable_sort(found_.begin(), found_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Assignment> assignments;
    for (auto& [position, assignment] : found_) assignments.push_back(std::move(assignment));
    return assignments;
  }

 private:
  using Position = std::pair<toml::source_index, toml::source_index>;

  void leaf(const std::string& path, const toml::source_position& at, const toml::node& node) {
    Assignment assignment;
    assignment.key = path;
    assignment.place = fmt::format("{}:{}:{}", name_, at.line, at.column);
    assignment.value = value_of(node);
    if (std::holds_alternative<std::monostate>(assignment.value)) {
      assignment.value = joined_lists(node);
      assignment.of_lists = !std::holds_alternative<std::monostate>(assignment.value);
    }
    if (std::holds_alternative<std::monostate>(assignment.value)) assignment.kind = kind_of(node);
    assignment.shown = path;
    if (assignment.kind.empty()) assignment.shown += " = " + to_toml(assignment.value);
    found_.emplace_back(Position{at.line, at.column}, std::move(assignment));
  }

  std::string name_;
  std::vector<std::pair<Position, Assignment>> found_;
};

// Returns " (did you mean configs/x.toml?)", or where the presets are.
std::string suggest_file(const std::filesystem::path& path) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const std::filesystem::path& folder : {path.parent_path(), std::filesystem::path("configs")})
    for (const auto& entry : std::filesystem::directory_iterator(folder.empty() ? "." : folder, ignored))
      if (entry.path().extension() == ".toml") names.push_back((folder / entry.path().filename()).string());
  if (const std::string near = did_you_mean(path.string(), names); !near.empty()) return near;
  std::vector<std::string> bare;
  for (const std::string& name : names) bare.push_back(std::filesystem::path(name).filename().string());
  if (const auto near = nearest(path.filename().string(), bare))
    return " (did you mean configs/" + *near + "?)";
  return names.empty() ? "" : " (the presets are configs/*.toml)";
}

}  // namespace

std::vector<Assignment> read_toml(std::string_view text, const std::string& name, Problems& problems) {
  try {
    const toml::table parsed = parse_toml(text, name);
    Flatten flatten(name);
    flatten.table(parsed, "");
    return flatten.in_file_order();
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    problems.add(fmt::format("{}:{}:{}", name, at.line, at.column),
                 fmt::format("not valid TOML: {}", error.description()));
    return {};
  }
}

std::vector<Assignment> read_toml_file(const std::string& path, const std::string& place,
                                       Problems& problems) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  const auto refuse = [&](const std::string& why) {
    problems.add(place, fmt::format("cannot read \"{}\": {}", path, why));
    return std::vector<Assignment>();
  };
  if (!std::filesystem::exists(status))
    return refuse("no such file" + (problems.are_many() ? "" : suggest_file(path)));
  if (std::filesystem::is_directory(status)) return refuse("it is a folder; name a TOML file");
  std::ifstream file(path, std::ios::binary);
  if (!file) return refuse(std::strerror(errno));
  std::string text;
  for (std::array<char, 1 << 14> part; file && text.size() <= kMaxBytes;) {  // also reads pipes
    file.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) return refuse(std::strerror(errno));
  if (text.size() > kMaxBytes) return refuse("it is larger than 1 MiB; a configuration is a short TOML text");
  return read_toml(text, path, problems);
}

}  // namespace rondo
