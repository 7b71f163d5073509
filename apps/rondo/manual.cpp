#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/commands.h"
#include "config/schema/job_config.h"
#include "support/version.h"

namespace rondo {
namespace {

// Escapes text for roff, so that no line starts a macro.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool begins_line = out.empty() || out.back() == '\n';
    if (begins_line && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string entry(const std::string& term, const std::string& meaning) {
  return fmt::format(".TP\n.B {}\n{}\n", plain(term), plain(meaning));
}

std::string command_part(const CommandSpec& command) {
  std::string out = fmt::format(".SS \"{}\"\n{}\n.PP\n{}\n", plain("rondo " + command.command),
                                plain(command.usage), plain(command.about));
  for (const CommandSpec::Row& row : command.rows)
    out += entry(fmt::format("{} {}", fmt::join(row.names, ", "), row.shown), row.meaning);
  return out;
}

}  // namespace

std::string manual_page(const std::vector<CommandSpec>& commands) {
  std::string out = fmt::format(
      ".TH RONDO 1 \"\" \"rondo {}\" \"\"\n.SH NAME\nrondo \\- pretrains large language models\n", version());
  out += ".SH SYNOPSIS\n.B rondo\nSUBCOMMAND ...\n.SH COMMANDS\n";
  for (const CommandSpec& command : commands) out += command_part(command);
  out += ".SH CONFIGURATION\nIn a TOML file [section] and key = value, as a flag \\-\\-section.key=value.\n";
  for (const Section& section : sections()) {
    out += fmt::format(".SS \"[{}]\"\n{}\n", section.name, plain(section.meaning));
    for (const Field& field : *section.fields)
      out += entry(section.name + "." + field.name,
                   fmt::format("{} [{}]", field.meaning, to_toml(field.default_value)));
  }
  return out;
}

}  // namespace rondo
