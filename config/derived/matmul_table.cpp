#include "config/derived/matmul_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "ops/matmul/matmul_algorithm.h"
#include "support/error.h"
#include "support/files/file.h"
#include "support/printable.h"
#include "support/text/fingerprint.h"
#include "support/text/json_view.h"

namespace rondo {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kLargestTable = 16 << 20;

double positive(const JsonView& view) {
  const double number = view.number();
  if (number <= 0) view.refuse("must be above 0");
  return number;
}

MatmulRow read_row(const JsonView& row) {
  constexpr std::int64_t kMaxCalls = 1'000'000'000;
  const JsonView algorithm = row.at("algorithm");
  if (!algorithm.text().empty() && !parse_matmul_algorithm(algorithm.text()))
    algorithm.refuse("is not a cuBLASLt algorithm");
  return {.product = row.at("product").text(),
          .calls = row.at("calls").integer(1, kMaxCalls),
          .libtorch_us = positive(row.at("libtorch_us")),
          .us = positive(row.at("us")),
          .algorithm = algorithm.text()};
}

}  // namespace

std::map<std::string, std::string> MatmulTable::algorithms() const {
  std::map<std::string, std::string> values;
  for (const MatmulRow& row : rows) values.emplace(row.product, row.algorithm);
  return values;
}

std::map<std::string, double> MatmulTable::seconds() const {
  std::map<std::string, double> values;
  for (const MatmulRow& row : rows)
    values.emplace(row.product, 1e-6 * (row.algorithm.empty() ? row.libtorch_us : row.us));
  return values;
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
  const JsonSource source{file, ExitCode::config, "; measure again with rondo tune"};
  const nlohmann::json json = parse_json(text, source);
  const JsonView whole(json, source);
  MatmulTable table{.device = whole.at("device").text(), .rows = {}};
  std::set<std::string> products;
  for (const JsonView& row : whole.at("products").items()) {
    table.rows.push_back(read_row(row));
    if (!products.insert(table.rows.back().product).second)
      row.at("product").refuse("is in the table already");
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
    throw Error(ExitCode::config,
                fmt::format("compile.matmul_algorithms = \"{}\": was measured on \"{}\", but this device is "
                            "\"{}\"; measure again with rondo tune, or remove the key",
                            file, printable(table.device, 200), device));
}

}  // namespace rondo
