// Lists the parsers of foreign bytes that are attacked. Each is one function that reads an input to
// its end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.h"

namespace rondo::attack {

struct Input {
  std::string text;            // the mutated bytes
  std::uint64_t number = 0;    // of the input; for choices that are not in the bytes
  std::filesystem::path file;  // of a parser of files: holds the bytes now, beside its companions
};

struct Parser {
  // Its seeds are in tests/attack/corpus/NAME: each file is one; the files of a folder there are
  // read together, and one of them is mutated.
  std::string_view name;
  bool reads_files = false;
  int cost = 1;  // a run of N inputs has N / cost of this parser
  // What it may end in besides success. Anything else that it throws is a bug, and
  // ExitCode::internal is, too.
  std::vector<ExitCode> refusals;
  void (*read)(const Input&);
  std::vector<std::string> (*made)() = nullptr;  // more seeds
};

std::span<const Parser> parsers();
std::vector<Parser> parsers_of_text();   // no file is touched
std::vector<Parser> parsers_of_files();  // of files, and of folders of files

// Throws std::logic_error, which is no refusal, where what must hold of an input that was accepted
// does not.
void must(bool holds, const char* what);

}  // namespace rondo::attack
