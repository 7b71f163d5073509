// The table of `rondo launch`'s flags: names, shapes, and the help that is made of them.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace rondo::launch {

enum class Shape { value, toggle, refused };

struct Flag {
  const char* name;  // with dashes
  const char* short_name;
  Shape shape;
  const char* value;  // how the value is shown in the help; for a refused flag the reason
  const char* help;
};

std::span<const Flag> all_flags();

// The flag spelt `--name`, with dashes or underscores, or by its short name; nullptr where there is none.
const Flag* find_flag(std::string spelt);

// "--name" of every flag that is not refused.
std::vector<std::string> served_flags();

// PET_<NAME>
std::string environment_name(const Flag& flag);

std::string help_text();

}  // namespace rondo::launch
