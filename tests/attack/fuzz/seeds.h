// The seeds of a parser, and inputs made of them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/attack/fuzz/parsers.h"

namespace rondo::attack {

class Seeds {
 public:
  // Copies what the parser reads from files into `work`, which is removed with this object's
  // process.
  Seeds(const Parser& parser, const std::filesystem::path& work);

  Input make(std::uint64_t seed, std::uint64_t number) const;
  // Puts the input's bytes into its file, and the seed's back.
  void lay_out(const Input& input) const;
  void put_back(const Input& input) const;

 private:
  struct Seed {
    std::string text;
    std::filesystem::path file;  // in the work folder; empty: of a text
    bool is_json = false;        // or JSON lines
    bool is_protobuf = false;
  };
  void add(const std::string& text, const std::filesystem::path& file);
  void add_file(const std::filesystem::path& from, const std::filesystem::path& folder);

  bool reads_files_;
  std::vector<Seed> seeds_;
};

}  // namespace rondo::attack
