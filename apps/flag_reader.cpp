#include "apps/flag_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "support/error.h"
#include "support/text/nearest.h"

namespace rondo {
namespace {

bool holds(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::int64_t factor_of(char letter) {
  switch (letter) {
    case 'K':
      return 1'000;
    case 'M':
      return 1'000'000;
    case 'G':
      return 1'000'000'000;
    case 'T':
      return 1'000'000'000'000;
    default:
      return 1;
  }
}

}  // namespace

FlagReader::FlagReader(const std::string& name, const Arguments& args,
                       const std::vector<std::string>& with_value, const std::vector<std::string>& switches)
    : command(name) {
  const auto fail = [&](const std::string& what) {
    throw Error(ExitCode::usage,
                fmt::format("{}: {}; `rondo {} --help` lists the flags", command, what, command));
  };
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::size_t equals = args[i].find('=');
    const std::string flag = args[i] == "-h" ? "--help" : args[i].substr(0, equals);
    if (!flag.starts_with("-") || flag == "-") {
      words.push_back(args[i]);
    } else if (holds(with_value, flag)) {
      if (equals == std::string::npos && i + 1 == args.size()) fail(flag + " needs a value");
      values[flag].push_back(equals == std::string::npos ? args[++i] : args[i].substr(equals + 1));
    } else if (holds(switches, flag) || flag == "--help") {
      if (equals != std::string::npos) fail(flag + " takes no value");
      values[flag].emplace_back();
    } else {
      std::vector<std::string> known = with_value;
      known.insert(known.end(), switches.begin(), switches.end());
      known.emplace_back("--help");
      fail(fmt::format("unknown flag {}{}", flag, did_you_mean(flag, known)));
    }
  }
}

std::string FlagReader::text(const std::string& flag, const std::string& otherwise) const {
  const auto found = values.find(flag);
  return found == values.end() ? otherwise : found->second.back();
}

std::int64_t FlagReader::number(const std::string& flag, std::int64_t least, std::int64_t otherwise) const {
  if (!has(flag)) return otherwise;
  const std::string text = values.at(flag).back();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const std::int64_t factor = rest.size() == 1 ? factor_of(rest[0]) : 1;
  const bool known = rest.empty() || (rest.size() == 1 && factor > 1);
  if (error != std::errc() || !known || value < least ||
      value > std::numeric_limits<std::int64_t>::max() / factor)
    throw Error(ExitCode::usage,
                fmt::format("{}: {} \"{}\" must be a whole number from {} on, such as 8 or 100M", command,
                            flag, text, least));
  return value * factor;
}

}  // namespace rondo
