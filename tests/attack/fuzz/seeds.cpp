// Each seed that is a file lies in a folder of its own below the work folder, with its companions.
#include "tests/attack/fuzz/seeds.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/attack/fuzz/mutate.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo::attack {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  if (!(std::ofstream(path, std::ios::binary) << text))
    throw std::runtime_error("cannot write " + path.string());
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace

Seeds::Seeds(const Parser& parser, const fs::path& work) : reads_files_(parser.reads_files) {
  if (parser.made != nullptr)
    for (const std::string& text : parser.made()) {
      const fs::path folder = work / ("made-" + std::to_string(seeds_.size()));
      if (reads_files_) fs::create_directories(folder);
      add(text, folder / "made");
    }
  const fs::path corpus = fs::path(RONDO_SOURCE_DIR "/tests/attack/corpus") / parser.name;
  if (fs::exists(corpus))
    for (const fs::path& entry : sorted_entries(corpus)) {
      if (fs::is_directory(entry)) {
        for (const fs::path& file : sorted_entries(entry)) add_file(file, work / entry.filename());
      } else {
        add_file(entry, work / ("file-" + std::to_string(seeds_.size())));
      }
    }
  if (seeds_.empty()) throw std::runtime_error(std::string(parser.name) + " has no seed");
}

void Seeds::add_file(const fs::path& from, const fs::path& folder) {
  if (reads_files_) fs::create_directories(folder);
  add(text_of(from), folder / from.filename());
}

void Seeds::add(const std::string& text, const fs::path& file) {
  using nlohmann::json;
  const bool is_json = json::accept(text) || json::accept(text.substr(0, text.find('\n')));
  if (reads_files_) write(file, text);
  seeds_.push_back({text, reads_files_ ? file : fs::path(), is_json, !is_json && is_protobuf(text)});
}

Input Seeds::make(std::uint64_t seed, std::uint64_t number) const {
  Random random(seed * 0x9e3779b97f4a7c15 + number);
  const Seed& chosen = seeds_[random() % seeds_.size()];
  const Seed& other = seeds_[random() % seeds_.size()];
  const bool has_values = chosen.is_json || chosen.is_protobuf, by_value = has_values && random() % 2 == 0;
  std::string text = !by_value        ? mutate(chosen.text, other.text, random)
                     : chosen.is_json ? mutate_json(chosen.text, other.text, random)
                                      : mutate_protobuf(chosen.text, random);
  text.resize(std::min(text.size(), kLongestMutant));
  return {std::move(text), number, chosen.file};
}

void Seeds::lay_out(const Input& input) const {
  if (reads_files_) write(input.file, input.text);
}

void Seeds::put_back(const Input& input) const {
  if (!reads_files_) return;
  const auto found =
      std::find_if(seeds_.begin(), seeds_.end(), [&](const Seed& s) { return s.file == input.file; });
  write(input.file, found->text);
}

}  // namespace rondo::attack
