// Selects the passes of compile.passes and compile.disable_passes, in the pipeline's order. A list
// that cannot run is refused with all of its problems.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/passes/pipeline.h"
#include "support/error.h"
#include "support/text/nearest.h"

namespace rondo::ir {
namespace {

struct Chooser {
  std::span<const PassInfo> table;
  const CompileOptions& options;
  std::vector<bool> selected = std::vector<bool>(table.size(), false);
  std::vector<bool> replaced = std::vector<bool>(table.size(), false);
  std::vector<std::string> problems = {};
  std::vector<std::string> notes = {};

  // Returns the index of a pass. For an unknown name, returns the size of the table and adds
  // a problem.
  std::size_t find(const std::string& key, const std::string& name) {
    const auto row =
        std::find_if(table.begin(), table.end(), [&](const PassInfo& p) { return p.name == name; });
    if (row == table.end()) {
      std::vector<std::string> names = {"default"};
      for (const PassInfo& pass : table) names.emplace_back(pass.name);
      problems.push_back(fmt::format("{}: unknown pass \"{}\"{}; known are {}", key, name,
                                     did_you_mean(name, names), fmt::join(names, ", ")));
    }
    return static_cast<std::size_t>(row - table.begin());
  }

  void select_default() {
    std::vector<std::string_view> rounding;
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (!table[i].in_default) continue;
      if (table[i].numerics == Numerics::rounds && options.numerics == Numerics::exact) {
        rounding.push_back(table[i].name);
      } else {
        selected[i] = true;
      }
    }
    if (!rounding.empty())
      notes.push_back(fmt::format("{} left out, since compile.numerics = \"exact\": {}",
                                  rounding.size() == 1 ? "a pass that rounds is" : "passes that round are",
                                  fmt::join(rounding, ", ")));
  }

  void select(const std::string& name) {
    const std::size_t i = find("compile.passes", name);
    if (i == table.size()) return;
    if (table[i].only_on && table[i].only_on != options.device) {
      problems.push_back(fmt::format("compile.passes: {} needs device {}, and the run's is {}; remove it",
                                     name, name_of(*table[i].only_on), name_of(options.device)));
    } else if (table[i].numerics == Numerics::rounds && options.numerics == Numerics::exact) {
      problems.push_back(
          fmt::format("compile.passes: {} rounds; set compile.numerics = \"rounds\" to allow it", name));
    } else {
      selected[i] = true;
      replace(table[i]);
    }
  }

  // A pass that is requested by name replaces the pass to which it is an alternative.
  void replace(const PassInfo& pass) {
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (pass.replaces.empty() || table[i].name != pass.replaces) continue;
      replaced[i] = true;
      notes.push_back(fmt::format("{} is left out: {} replaces it", table[i].name, pass.name));
    }
  }

  void select_listed() {
    // A bare "cudagraph" adds to the default list rather than replacing it.
    if (options.passes == std::vector<std::string>{"cudagraph"}) select_default();
    std::size_t furthest = 0;
    for (const std::string& name : options.passes) {
      if (name == "default") {
        select_default();
        continue;
      }
      select(name);
      const auto row =
          std::find_if(table.begin(), table.end(), [&](const PassInfo& p) { return p.name == name; });
      const auto place = static_cast<std::size_t>(row - table.begin());
      if (place < furthest)
        problems.push_back(
            fmt::format("compile.passes: {} must come first, before {}; the pipeline's order "
                        "is fixed (`rondo opt --list` shows it)",
                        name, table[furthest].name));
      if (row != table.end()) furthest = std::max(furthest, place);
    }
  }

  void disable() {
    for (const std::string& name : options.disable_passes) {
      const std::size_t i = find("compile.disable_passes", name);
      if (i < table.size()) selected[i] = false;
    }
  }
};

// Returns the first pass that gives (or breaks) a property, or nullptr.
const PassInfo* find_where(std::span<const PassInfo> table, Properties PassInfo::*list, Properties property) {
  const auto row =
      std::find_if(table.begin(), table.end(), [&](const PassInfo& p) { return p.*list & property; });
  return row == table.end() ? nullptr : &*row;
}

std::string unmet(std::span<const PassInfo> table, std::span<const PassInfo* const> before,
                  const PassInfo& pass, Properties property) {
  if (const PassInfo* giver = find_where(table, &PassInfo::gives, property))
    return fmt::format("{} needs {}: {} must come first; name it in compile.passes and do not disable it",
                       pass.name, property_name(property), giver->name);
  for (const PassInfo* earlier : before)
    if (earlier->breaks & property)
      return fmt::format("{} must come first, before {}, which leaves no {}", pass.name, earlier->name,
                         property_name(property));
  RONDO_ASSERT(false, "no pass gives a property that a pass needs");
}

}  // namespace

std::string_view property_name(Properties property) {
  switch (property) {
    case kFunctional:
      return "graph without overwrites";
    case kGatheredOnce:
      return "one gather of each parameter a phase";
    case kPhasesInTurn:
      return "forward, backward and update one after the other";
    default:
      return "?";
  }
}

std::vector<std::string> order_problems(std::span<const PassInfo> table,
                                        std::span<const PassInfo* const> passes) {
  std::vector<std::string> problems;
  Properties properties = kFunctional | kPhasesInTurn;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const PassInfo& pass = *passes[i];
    for (Properties bit = 1; bit != 0 && bit <= pass.needs; bit <<= 1)
      if (pass.needs & ~properties & bit) problems.push_back(unmet(table, passes.first(i), pass, bit));
    properties = (properties & ~pass.breaks) | pass.gives;
  }
  return problems;
}

Selection choose_passes(std::span<const PassInfo> table, const CompileOptions& options) {
  Chooser chooser{.table = table, .options = options};
  chooser.select_listed();
  chooser.disable();
  Selection selection{
      .passes = {}, .notes = std::move(chooser.notes), .problems = std::move(chooser.problems)};
  for (std::size_t i = 0; i < table.size(); ++i)
    if (chooser.selected[i] && !chooser.replaced[i]) selection.passes.push_back(&table[i]);
  if (selection.problems.empty()) selection.problems = order_problems(table, selection.passes);
  return selection;
}

Selection select_passes(std::span<const PassInfo> table, const CompileOptions& options) {
  Selection selection = choose_passes(table, options);
  if (!selection.problems.empty())
    throw Error(ExitCode::config, fmt::format("{}", fmt::join(selection.problems, "\n")));
  return selection;
}

}  // namespace rondo::ir
