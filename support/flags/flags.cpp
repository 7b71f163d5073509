// Flags on top of CLI11, which finds the flags among the words, their values, and the end of the
// flags. This file adds the values and their rules, the texts, the report of all mistakes at once,
// and the environment as the last source.
//
// Each spelling of a flag is an option of CLI11 whose callback runs at the position of the word. So
// messages show the flag as the user wrote it, and the last value counts. Only this file includes
// CLI11, which takes nine seconds to compile.
#include "support/flags/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "support/error.h"
#include "support/flags/terminal.h"
#include "support/text/nearest.h"

namespace rondo {
namespace {

// CLI11 reads `--name=` as a name whose value is the next word. This suffix makes the empty value
// explicit.
constexpr char kEmpty = '\x01';

// CLI11's value of a toggle without a value.
constexpr const char* kOn = "true";

// A shell that expands a pattern leaves all but the first file without a flag.
constexpr const char* kQuotePatterns = "; put a pattern of files in quotes";

std::string with_mark(const std::string& word) {
  return word.starts_with("--") && word.ends_with('=') ? word + kEmpty : word;
}
std::string without_mark(std::string word) {
  if (word.ends_with(kEmpty)) word.pop_back();
  return word;
}

// Returns the spellings of a name: a long name also has one with underscores.
std::vector<std::string> spellings(const std::string& name) {
  std::string with_underscores = name;
  std::replace(with_underscores.begin() + 2, with_underscores.end(), '-', '_');
  if (with_underscores == name) return {name};
  return {name, with_underscores};
}

bool is_flag(std::string_view word) { return word.size() > 1 && word[0] == '-'; }

HelpCollector* collector = nullptr;

std::string name_in(std::string_view word) { return std::string(word.substr(0, word.find('='))); }

}  // namespace

Flags::Flags(std::string command, std::string about, std::string notes)
    : command_(std::move(command)), about_(std::move(about)), notes_(std::move(notes)) {
  const auto nothing_to_store = [](const std::string&) { return std::string(); };
  flags_.push_back({Kind::toggle, {"-h", "--help"}, "", nothing_to_store, "this page", Need::optional});
}

void Flags::value(const std::string& names, const std::string& shown, ReadValue read,
                  const std::string& meaning, Need need) {
  flags_.push_back({Kind::value, split(names, ','), shown, std::move(read), meaning, need});
}

void Flags::toggle(const std::string& names, bool* on, const std::string& meaning) {
  const auto switch_on = [on](const std::string&) {
    *on = true;
    return std::string();
  };
  flags_.push_back({Kind::toggle, split(names, ','), "", switch_on, meaning, Need::optional});
}

void Flags::refuse(const std::string& names, const std::string& reason) {
  flags_.push_back({Kind::refused, split(names, ','), "", nullptr, reason, Need::optional});
}

void Flags::positional(const std::string& name, ReadValue read, const std::string& meaning, Need need) {
  positionals_.push_back({name, std::move(read), meaning, need});
}

void Flags::program(std::vector<std::string>* program) { program_ = program; }

bool Flags::read(const std::vector<std::string>& args) {
  const std::vector<std::string> words = refuse_unknown(read_flags(args));
  if (given("--help")) {
    show_help(spec());
    return false;
  }
  read_environment();
  // After an unknown flag, a word may be its value, so positionals are not checked.
  if (problems_.empty()) read_positionals(words);
  if (problems_.empty()) require_flags();
  if (!problems_.empty()) fail(problems_);
  return true;
}

std::vector<std::string> Flags::read_flags(const std::vector<std::string>& args) {
  CLI::App app;
  app.set_help_flag("");
  app.allow_extras();
  app.prefix_command(program_ != nullptr);
  const auto declare = [&](const Flag& flag, const std::string& spelling) {
    const auto take_value = [this, &flag, spelling](const CLI::results_t& values) {
      const bool keeps_equals = spelling.size() == 2 && values.front().starts_with('=');  // -t=3
      take(flag, spelling, without_mark(values.front().substr(keeps_equals ? 1 : 0)));
      return true;
    };
    app.add_option(spelling, take_value)->expected(flag.kind == Kind::value ? 1 : 0)->trigger_on_parse();
  };
  for (const Flag& flag : flags_)
    for (const std::string& name : flag.names)
      for (const std::string& spelling : spellings(name)) declare(flag, spelling);

  std::vector<std::string> backwards;  // CLI11's order
  std::transform(args.rbegin(), args.rend(), std::back_inserter(backwards), with_mark);
  try {
    app.parse(std::move(backwards));
  } catch (const CLI::ArgumentMismatch&) {  // the last word is a flag without its value
    problems_.push_back(args.back() + " needs a value");
  }

  std::vector<std::string> left = app.remaining();
  std::transform(left.begin(), left.end(), left.begin(), without_mark);
  return left;
}

std::vector<std::string> Flags::refuse_unknown(const std::vector<std::string>& left) {
  std::vector<std::string> words;
  bool flags_end = false;
  for (const std::string& word : left) {
    if (!flags_end && word == "--") {
      flags_end = true;
    } else if (keys_ != nullptr && !is_own(word)) {
      keys_->push_back(word);
    } else if (!flags_end && is_flag(word)) {
      problems_.push_back(
          fmt::format("unknown flag {}{}", name_in(word), did_you_mean(name_in(word), served_names())));
    } else {
      flags_end = flags_end || program_ != nullptr;
      words.push_back(word);
    }
  }
  return words;
}

bool Flags::is_own(const std::string& word) const {
  const bool has_some = flags_.size() > 1;  // besides --help
  return has_some && word.starts_with("--") && name_in(word).find('.') == std::string::npos;
}

void Flags::take(const Flag& flag, const std::string& as, const std::string& value) {
  const auto problem = [&](const std::string& what) { problems_.push_back(as + " " + what); };
  if (flag.kind == Kind::refused) return problem("is not supported: " + flag.meaning);
  if (flag.kind == Kind::toggle && value != kOn)
    return problem(fmt::format("takes no value, but got \"{}\"", value));
  if (flag.kind == Kind::value && value == "--") return problem("needs a value");
  given_[flag.names.back()] = {as, value};
  const std::string broken = flag.read(value);
  if (!broken.empty()) problem(fmt::format("\"{}\" {}", value, broken));
}

void Flags::read_environment() {
  if (environment_prefix_.empty()) return;
  for (const Flag& flag : flags_) {
    const std::string& name = flag.names.back();
    std::string variable = environment_prefix_;
    for (const char c : name.substr(2))
      variable += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr || given(name)) continue;
    if (flag.kind == Kind::value)
      take(flag, variable, value);
    else if (std::string_view(value) == "1")
      take(flag, variable, kOn);
    else if (flag.kind == Kind::toggle && std::string_view(value) != "0")
      problems_.push_back(fmt::format("{} \"{}\" must be 0 or 1", variable, value));
  }
}

void Flags::read_positionals(const std::vector<std::string>& words) {
  if (program_ != nullptr) {
    *program_ = words;
    return;
  }
  if (keys_ != nullptr) {  // the words belong to `keys`
    for (const Positional& positional : positionals_)
      if (positional.need == Need::required && keys_->empty())
        problems_.push_back(positional.name.substr(0, positional.name.find(' ')) + " is missing");
    return;
  }
  std::error_code ignored;
  const auto takes_all = [](const Positional& positional) { return positional.name.ends_with("..."); };
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i >= positionals_.size() && (positionals_.empty() || !takes_all(positionals_.back()))) {
      problems_.push_back(fmt::format("\"{}\" does not belong to a flag{}", words[i],
                                      std::filesystem::exists(words[i], ignored) ? kQuotePatterns : ""));
      continue;
    }
    const Positional& positional = positionals_[std::min(i, positionals_.size() - 1)];
    const std::string broken = positional.read(words[i]);
    if (!broken.empty()) problems_.push_back(fmt::format("{} \"{}\" {}", positional.name, words[i], broken));
  }
  for (std::size_t i = words.size(); i < positionals_.size(); ++i)
    if (positionals_[i].need == Need::required) problems_.push_back(positionals_[i].name + " is missing");
}

void Flags::require_flags() {
  for (const Flag& flag : flags_)
    if (flag.need == Need::required && !given(flag.names.back()))
      problems_.push_back(flag.names.back() + " is missing");
}

std::string Flags::as_given(const std::string& name) const {
  const Given& given = given_.at(name);
  return fmt::format("{} \"{}\"", given.as, given.value);
}

bool Flags::serves(std::string_view word) const {
  const Flag* flag = find(name_in(word));
  return flag != nullptr && flag->kind != Kind::refused;
}

void Flags::fail(const std::vector<std::string>& problems) const {
  throw Error(ExitCode::usage, fmt::format("{}: {}; `rondo {} --help` lists the flags", command_,
                                           fmt::join(problems, "\n  "), command_));
}

const Flags::Flag* Flags::find(const std::string& name) const {
  for (const Flag& flag : flags_)
    for (const std::string& known : flag.names)
      for (const std::string& spelling : spellings(known))
        if (spelling == name) return &flag;
  return nullptr;
}

std::vector<std::string> Flags::served_names() const {
  std::vector<std::string> names;
  for (const Flag& flag : flags_)
    if (flag.kind != Kind::refused) names.push_back(flag.names.back());
  return names;
}

// Returns "rondo plan CONFIG --world N [--json]", or "[flags]" for a long list.
std::string Flags::usage() const {
  constexpr std::size_t kWidth = 100;
  std::string text = "rondo " + command_, optional;
  for (const Positional& positional : positionals_)
    text += positional.need == Need::required ? " " + positional.name : " [" + positional.name + "]";
  for (const Flag& flag : flags_) {
    if (flag.kind == Kind::refused || flag.names.back() == "--help") continue;
    const std::string shown = flag.names.back() + (flag.shown.empty() ? "" : " " + flag.shown);
    if (flag.need == Need::required)
      text += " " + shown;
    else
      optional += " [" + shown + "]";
  }
  text += text.size() + optional.size() <= kWidth ? optional : " [flags]";
  if (keys_ != nullptr) text += " [--section.key=value ...]";
  return program_ == nullptr ? text : text + " [--] PROGRAM ...";
}

CommandSpec Flags::spec() const {
  CommandSpec spec{.command = command_,
                   .usage = usage(),
                   .about = about_,
                   .notes = notes_,
                   .takes_keys = keys_ != nullptr};
  for (const Positional& positional : positionals_)
    spec.rows.push_back({.names = {positional.name}, .meaning = positional.meaning});
  for (const Flag& flag : flags_)
    if (flag.kind != Kind::refused)
      spec.rows.push_back(
          {.names = flag.names, .shown = flag.shown, .meaning = flag.meaning, .is_flag = true});
  return spec;
}

HelpCollector::HelpCollector() { collector = this; }
HelpCollector::~HelpCollector() { collector = nullptr; }

void show_help(const CommandSpec& spec) {
  if (collector != nullptr) return collector->commands.push_back(spec);
  std::vector<std::pair<std::string, std::string>> lines;
  for (const CommandSpec::Row& row : spec.rows)
    lines.emplace_back(fmt::format("{}{}", fmt::join(row.names, ", "), row.is_flag ? " " + row.shown : ""),
                       row.meaning);
  std::size_t width = 0;
  for (const auto& [left, meaning] : lines) width = std::max(width, left.size());
  std::string text = spec.usage + "\n\n" + spec.about + "\n\n";
  for (const auto& [left, meaning] : lines) text += fmt::format("  {:<{}}  {}\n", left, width, meaning);
  if (!spec.notes.empty()) text += "\n" + spec.notes + "\n";
  print_page(text);
}

}  // namespace rondo
