// `rondo completion bash|zsh`: a script that completes subcommands, flags, keys of the configuration and
// their values, made of what the commands and the configuration declare. zsh reads bash's through its own
// bashcompinit.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "apps/commands.h"
#include "config/schema/job_config.h"
#include "support/flags/flags.h"

namespace rondo {
namespace {

// Words of a command line so far decide the command; the word before decides whether a value is wanted.
constexpr const char* kFunction = R"sh(
_rondo() {
  local current=${COMP_WORDS[COMP_CWORD]} key=${COMP_WORDS[COMP_CWORD-1]} command='' word next i words
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    next=${command:+$command }$word
    if [[ $word == -- ]]; then
      command=''
    elif [[ -n $(_rondo_words "$next") ]]; then
      command=$next
    fi
  done
  if [[ $current == = ]]; then
    current=''
  elif [[ $key == = ]]; then
    key=${COMP_WORDS[COMP_CWORD-2]}
  fi
  words=$(_rondo_values "$key")
  if [[ -z $words ]]; then
    words=$(_rondo_words "$command")
    if _rondo_takes_keys "$command"; then words="$words $_rondo_keys"; fi
    if [[ $current != -* ]] && ! _rondo_is_choice "$command"; then words="$words $(compgen -f -- "$current")"; fi
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o filenames -F _rondo rondo
)sh";

// A shell function that prints, or asks, by its first argument.
std::string choice(const std::string& name, const std::vector<std::pair<std::string, std::string>>& cases,
                   const std::string& otherwise = "") {
  std::string out = name + "() {\n  case $1 in\n";
  for (const auto& [value, does] : cases) out += fmt::format("    '{}') {} ;;\n", value, does);
  return out + (otherwise.empty() ? "" : "    *) " + otherwise + " ;;\n") + "  esac\n}\n";
}

std::string bash_script() {
  std::vector<std::pair<std::string, std::string>> words, takes_keys, is_choice, values;
  for (const CommandSpec& command : all_commands()) {
    std::vector<std::string> names;
    for (const CommandSpec::Row& row : command.rows)
      if (row.is_flag || command.is_choice) names.insert(names.end(), row.names.begin(), row.names.end());
    if (command.is_choice) names.insert(names.end(), {"--help"});
    words.emplace_back(command.command, fmt::format("echo '{}'", fmt::join(names, " ")));
    if (command.takes_keys) takes_keys.emplace_back(command.command, "return 0");
    if (command.is_choice) is_choice.emplace_back(command.command, "return 0");
  }
  std::vector<std::string> keys;
  for (const Section& section : sections())
    for (const Field& field : *section.fields) {
      keys.push_back(fmt::format("--{}.{}", section.name, field.name));
      if (field.type == FieldType::boolean)
        values.emplace_back(keys.back(), "echo 'true false'");
      else if (!field.rule.allowed.empty())
        values.emplace_back(keys.back(), fmt::format("echo '{}'", fmt::join(field.rule.allowed, " ")));
    }
  return fmt::format("# Completion for rondo; made by `rondo completion`.\n_rondo_keys='{}'\n",
                     fmt::join(keys, " ")) +
         choice("_rondo_words", words) + choice("_rondo_values", values) +
         choice("_rondo_takes_keys", takes_keys, "return 1") +
         choice("_rondo_is_choice", is_choice, "return 1") + kFunction;
}

}  // namespace

int run_completion(const Arguments& args) {
  std::string shell;
  Flags flags("completion", "Prints a script that completes rondo's words in a shell.",
              "In bash: source <(rondo completion bash). In zsh: source <(rondo completion zsh).");
  flags.positional("bash|zsh", flag::one_of(&shell, {"bash", "zsh"}), "the shell", Need::required);
  if (!flags.read(args)) return 0;
  const std::string script = bash_script();
  if (shell == "zsh")
    std::fputs("autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n", stdout);
  std::fputs(script.c_str(), stdout);
  return 0;
}

}  // namespace rondo
