// The patterns of published tokenizers, each with the stages in which they are applied.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace rondo {

inline std::map<std::string, std::vector<std::string>> published_patterns() {
  const std::string contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
  const std::string ends = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const std::string cased =
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" + contractions +
      R"(?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" + contractions +
      "?";
  const std::string no_han = R"(&&[^\p{Han}]])";
  const std::string kimi_upper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M})" + no_han;
  const std::string kimi_lower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M})" + no_han;
  const std::string prefix = R"(|[^\r\n\p{L}\p{N}]?)";
  const auto llama = [&](const std::string& digits) {
    return contractions + prefix + R"(\p{L}+|)" + digits + R"(| ?[^\s\p{L}\p{N}]+[\r\n]*)" + ends;
  };
  return {
      {"gpt2", {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"}},
      {"llama3", {llama(R"(\p{N}{1,3})")}},
      {"qwen2", {llama(R"(\p{N})")}},
      {"cl100k",
       {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s*[\r\n]|\s+(?!\S)|\s)"}},
      {"o200k", {cased + R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" + ends}},
      {"kimi",
       {R"([\p{Han}]+)" + prefix + kimi_upper + "*" + kimi_lower + "+" + contractions + "?" + prefix +
        kimi_upper + "+" + kimi_lower + "*" + contractions + R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" +
        ends}},
      {"deepseek_v3",
       {R"(\p{N}{1,3})", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
        "| ?[\\p{P}\\p{S}]+[\r\n]*" +
            ends}},
  };
}

}  // namespace rondo
