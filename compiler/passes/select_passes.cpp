// Which passes run: what compile.passes and compile.disable_passes ask for, in the pipeline's order. A list
// that cannot run as asked is refused with everything that is wrong with it.
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
  std::vector<bool> wanted = std::vector<bool>(table.size(), false);
  std::vector<bool> replaced = std::vector<bool>(table.size(), false);
  std::vector<std::string> problems = {};
  std::vector<std::string> notes = {};

  // Index into the table; its size, and a problem, if there is no such pass.
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

  void want_default() {
    std::vector<std::string_view> rounding;
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (!table[i].in_default) continue;
      if (table[i].numerics == Numerics::rounds && options.numerics == Numerics::exact) {
        rounding.push_back(table[i].name);
      } else {
        wanted[i] = true;
      }
    }
    if (!rounding.empty())
      notes.push_back(fmt::format("{} left out, since compile.numerics = \"exact\": {}",
                                  rounding.size() == 1 ? "a pass that rounds is" : "passes that round are",
                                  fmt::join(rounding, ", ")));
  }

  void want(const std::string& name) {
    const std::size_t i = find("compile.passes", name);
    if (i == table.size()) return;
    if (table[i].only_on && table[i].only_on != options.device) {
      problems.push_back(fmt::format("compile.passes: {} needs device {}, and the run's is {}; leave it out",
                                     name, name_of(*table[i].only_on), name_of(options.device)));
    } else if (table[i].numerics == Numerics::rounds && options.numerics == Numerics::exact) {
      problems.push_back(
          fmt::format("compile.passes: {} rounds; set compile.numerics = \"rounds\" to allow it", name));
    } else {
      wanted[i] = true;
      replace(table[i]);
    }
  }

  // A pass that was asked for by name takes the place of the one that it is another way of.
  void replace(const PassInfo& pass) {
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (pass.replaces.empty() || table[i].name != pass.replaces) continue;
      replaced[i] = true;
      notes.push_back(fmt::format("{} is left out: {} takes its place", table[i].name, pass.name));
    }
  }

  void want_listed() {
    // A bare "cudagraph" adds to the default list rather than replacing it.
    if (options.passes == std::vector<std::string>{"cudagraph"}) want_default();
    std::size_t furthest = 0;
    for (const std::string& name : options.passes) {
      if (name == "default") {
        want_default();
        continue;
      }
      want(name);
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
      if (i < table.size()) wanted[i] = false;
    }
  }
};

// The first pass that gives (or breaks) a property.
const PassInfo* find_where(std::span<const PassInfo> table, Properties PassInfo::*list, Properties one) {
  const auto row = std::find_if(table.begin(), table.end(), [&](const PassInfo& p) { return p.*list & one; });
  return row == table.end() ? nullptr : &*row;
}

std::string unmet(std::span<const PassInfo> table, std::span<const PassInfo* const> before,
                  const PassInfo& pass, Properties one) {
  if (const PassInfo* giver = find_where(table, &PassInfo::gives, one))
    return fmt::format("{} needs {}: {} must come first; name it in compile.passes and do not disable it",
                       pass.name, property_name(one), giver->name);
  for (const PassInfo* earlier : before)
    if (earlier->breaks & one)
      return fmt::format("{} must come first, before {}, which leaves no {}", pass.name, earlier->name,
                         property_name(one));
  RONDO_ASSERT(false, "a pass needs what no pass gives");
}

}  // namespace

std::string_view property_name(Properties one) {
  switch (one) {
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
  Properties held = kFunctional | kPhasesInTurn;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const PassInfo& pass = *passes[i];
    for (Properties one = 1; one != 0 && one <= pass.needs; one <<= 1)
      if (pass.needs & ~held & one) problems.push_back(unmet(table, passes.first(i), pass, one));
    held = (held & ~pass.breaks) | pass.gives;
  }
  return problems;
}

Selection choose_passes(std::span<const PassInfo> table, const CompileOptions& options) {
  Chooser chooser{.table = table, .options = options};
  chooser.want_listed();
  chooser.disable();
  Selection selection{
      .passes = {}, .notes = std::move(chooser.notes), .problems = std::move(chooser.problems)};
  for (std::size_t i = 0; i < table.size(); ++i)
    if (chooser.wanted[i] && !chooser.replaced[i]) selection.passes.push_back(&table[i]);
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
