#include "config/matmul_table.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "ops/matmul/matmul_algorithm.h"
#include "support/error.h"
#include "support/files/file.h"
#include "support/text/fingerprint.h"
#include "support/text/printable.h"

namespace rondo {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kLargestTable = 16 << 20;

// Fields of one object, with the place in errors.
class RowReader {
 public:
  RowReader(const Json& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object_.is_object()) fail("must be an object");
  }
  std::string text(const char* name) const {
    if (!at(name).is_string()) fail(fmt::format("\"{}\" must be a text", name));
    return at(name).get<std::string>();
  }
  double positive(const char* name) const {
    const double number = at(name).is_number() ? at(name).get<double>() : 0;
    if (!std::isfinite(number) || number <= 0) fail(fmt::format("\"{}\" must be a number above 0", name));
    return number;
  }
  std::int64_t count(const char* name) const {
    if (!at(name).is_number_integer() || at(name) < 1 || at(name) > 1'000'000'000)
      fail(fmt::format("\"{}\" must be a whole number from 1 to 1000000000", name));
    return at(name).get<std::int64_t>();
  }
  const Json& at(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) fail(fmt::format("\"{}\" is missing", name));
    return *found;
  }
  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ExitCode::config, fmt::format("{}: {}; measure again with rondo tune", place_, problem));
  }

 private:
  const Json& object_;
  std::string place_;
};

MatmulRow read_row(const RowReader& fields) {
  MatmulRow row{fields.text("product"), fields.count("calls"), fields.positive("libtorch_us"),
                fields.positive("us"), fields.text("algorithm")};
  if (!row.algorithm.empty() && !parse_matmul_algorithm(row.algorithm))
    fields.fail(fmt::format("\"{}\" is no algorithm of cuBLASLt", printable(row.algorithm, 200)));
  return row;
}

}  // namespace

std::map<std::string, std::string> MatmulTable::algorithms() const {
  std::map<std::string, std::string> all;
  for (const MatmulRow& row : rows) all.emplace(row.product, row.algorithm);
  return all;
}

std::map<std::string, double> MatmulTable::seconds() const {
  std::map<std::string, double> all;
  for (const MatmulRow& row : rows)
    all.emplace(row.product, 1e-6 * (row.algorithm.empty() ? row.libtorch_us : row.us));
  return all;
}

std::string to_text(const MatmulTable& table) {
  Json rows = Json::array();
  for (const MatmulRow& row : table.rows)
    rows.push_back({{"product", row.product},
                    {"calls", row.calls},
                    {"libtorch_us", row.libtorch_us},
                    {"us", row.us},
                    {"algorithm", row.algorithm}});
  return Json{{"device", table.device}, {"products", std::move(rows)}}.dump(1) + "\n";
}

std::string fingerprint(const MatmulTable& table) { return fingerprint_of(to_text(table)); }

MatmulTable parse_matmul_table(std::string_view text, const std::string& file) {
  const Json json = Json::parse(text, nullptr, false);
  const RowReader whole(json, file);
  MatmulTable table{whole.text("device"), {}};
  const Json& rows = whole.at("products");
  if (!rows.is_array()) whole.fail("\"products\" must be a list");
  std::set<std::string> seen;
  for (const Json& row : rows) {
    const RowReader of_row(row, fmt::format("{}: product {}", file, table.rows.size() + 1));
    table.rows.push_back(read_row(of_row));
    if (!seen.insert(table.rows.back().product).second) of_row.fail("is there already");
  }
  return table;
}

MatmulTable read_matmul_table(const std::filesystem::path& file) {
  return parse_matmul_table(read_file(file, kLargestTable, FileUse::data), file.string());
}

std::optional<MatmulTable> matmul_table(const JobConfig& config) {
  if (config.compile.matmul_algorithms.empty()) return std::nullopt;
  return read_matmul_table(config.compile.matmul_algorithms);
}

void check_measured_on(const MatmulTable& table, const std::string& file, const std::string& device) {
  if (table.device != device)
    throw Error(ExitCode::config, fmt::format("compile.matmul_algorithms = \"{}\": was measured on \"{}\", "
                                              "and this is \"{}\"; measure again with "
                                              "rondo tune, or leave it out",
                                              file, printable(table.device, 200), device));
}

}  // namespace rondo
