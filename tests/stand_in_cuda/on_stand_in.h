// Runs the CUDA build's programs on the stand-in, and reads their journals.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/run/runs.h"

namespace rondo {

inline constexpr const char* kLlama = RONDO_SOURCE_DIR "/configs/llama3_debug.toml";
inline constexpr const char* kDeepSeek = RONDO_SOURCE_DIR "/configs/deepseek_v3_debug.toml";

// Returns NAME=VALUE settings that load the stand-in into the programs of a run, and set a folder
// for its journals.
inline Words stand_in_settings(const std::filesystem::path& journals) {
  std::string libraries;
  for (const auto& file : std::filesystem::directory_iterator(RONDO_BINARY_DIR "/stand_in_cuda"))
    libraries += (libraries.empty() ? "" : ":") + file.path().string();
  std::filesystem::create_directories(journals);
  return {"LD_PRELOAD=" + libraries, "RONDO_STAND_IN=" + journals.string(),
          "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7"};
}

// The lines of a rank's journal; runtime/journal.h has their format.
class JournalFile {
 public:
  JournalFile(const std::filesystem::path& journals, int rank)
      : lines_(rondo::lines_of(journals / fmt::format("rank{}.txt", rank))) {}

  // Returns the lines that begin with the word, in order.
  std::vector<std::string> of(const std::string& word) const {
    std::vector<std::string> found;
    for (const std::string& line : lines_)
      if (line.starts_with(word + " ")) found.push_back(line);
    return found;
  }
  std::string first(const std::string& word) const {
    const auto found = of(word);
    return found.empty() ? "no line \"" + word + "\"" : found.front();
  }
  // Returns the index of the last such line; -1: there is none.
  std::ptrdiff_t last_place(const std::string& start) const {
    for (std::size_t i = lines_.size(); i-- > 0;)
      if (lines_[i].starts_with(start)) return static_cast<std::ptrdiff_t>(i);
    return -1;
  }
  std::ptrdiff_t first_place(const std::string& start) const {
    for (std::size_t i = 0; i < lines_.size(); ++i)
      if (lines_[i].starts_with(start)) return static_cast<std::ptrdiff_t>(i);
    return -1;
  }
  // Returns the number of live objects when the process exited. -1: it was killed before.
  std::int64_t alive(const std::string& name) const {
    for (const std::string& line : of("live"))
      if (line.starts_with("live " + name + " ")) return std::atoll(line.c_str() + 6 + name.size());
    return -1;
  }
  static std::int64_t number(const std::string& line, const std::string& key) {
    const std::size_t at = line.find(" " + key + "=");
    return at == line.npos ? -1 : std::atoll(line.c_str() + at + key.size() + 2);
  }
  static std::string text(const std::string& line, const std::string& key) {
    const std::size_t at = line.find(" " + key + "=");
    if (at == line.npos) return "";
    const std::size_t begin = at + key.size() + 2;
    return line.substr(begin, line.find(' ', begin) - begin);
  }

 private:
  std::vector<std::string> lines_;
};

// A run of `ranks` ranks, recorded as CUDA graphs, that trains with `flags`.
struct StandInRun {
  Place place;

  Words words(int ranks, const std::string& config, const Words& flags) const {
    Words train = {"train",
                   config,
                   "--job.device=cuda",
                   "--job.dump_folder=" + (place / "run").string(),
                   "--training.dataset_path=" + (place / "corpus").string(),
                   "--compile.passes=cudagraph",
                   "--validation.enable=false"};
    if (ranks > 1) train = Words{"launch", "--nproc-per-node", std::to_string(ranks), "--"} + train;
    return Words{kRondo} + train + flags;
  }
  ProgramResult run(int ranks, const std::string& config, const Words& flags,
                    const Words& settings = {}) const {
    return run_program(
        Words{"/usr/bin/env"} + stand_in_settings(journals()) + settings + words(ranks, config, flags),
        kRunTimeout_ms);
  }
  std::filesystem::path journals() const { return place / "journals"; }
  JournalFile journal(int rank = 0) const { return {journals(), rank}; }
};

// Returns errors in a rank's use of CUDA, one per line: calls that CUDA refuses, use of another
// rank's GPU, allocations of a recorded step, collectives without priority or order, streams
// without order, captures that forbid calls of NCCL's threads, leaks, and a wrong order at the end.
// The order is recordings, then their pool, then communicators.
inline std::vector<std::string> problems(const JournalFile& journal, bool communicates = false) {
  std::vector<std::string> found;
  for (const char* word : {"refused", "misused", "unjoined", "capture_failed", "elsewhere"})
    for (const std::string& line : journal.of(word)) found.push_back(line);
  for (const std::string& line : journal.of("alloc"))
    if (JournalFile::text(line, "captures_begun") != "0")
      found.push_back("after the first recording: " + line);
  for (const std::string& line : journal.of("capture_begin"))
    if (JournalFile::text(line, "mode") == "global") found.push_back("a capture for all threads: " + line);
  for (const std::string& line : journal.of("priorities"))
    if (JournalFile::number(line, "collectives") >= JournalFile::number(line, "kernels"))
      found.push_back("collectives have no higher priority than kernels: " + line);
  for (const char* kind : {"recordings", "graphs", "pinned_blocks"})
    if (journal.alive(kind) != 0) found.push_back(fmt::format("{} {} at the end", journal.alive(kind), kind));
  if (communicates && journal.alive("communicators") != 0) found.push_back("communicators at the end");
  const std::ptrdiff_t destroyed = journal.last_place("destroy ");
  if (journal.first_place("destroy ") < journal.last_place("launch "))
    found.push_back("a recording was destroyed before the last launch");
  if (journal.last_place("free kind=device") < destroyed)
    found.push_back("the pool was freed before its recordings");
  if (communicates && journal.first_place("communicator_destroyed ") < destroyed)
    found.push_back("a communicator was destroyed before the recordings that use it");
  return found;
}

}  // namespace rondo
