// compile.fsdp_buckets: parameters that are gathered and reduced together.
//
// An entry is a bucket: names separated by | or +. A name is a parameter, a module with everything
// below it, or a pattern of either in which * matches any text. An entry with a range, such as
// layers.[0-5], makes one bucket per number. The syntax is torchtitan's: "layers.[0-5]",
// "norm+output".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo {

struct Bucket {
  std::string name;                // the entry, with a number for the range
  std::vector<std::string> names;  // its parts
};

// Returns the buckets of the entries, in order. Sets `rule`, if given, to the broken rule ("must
// ...").
std::vector<Bucket> read_buckets(const std::vector<std::string>& entries, std::string* rule = nullptr);

// Returns the name of the first bucket that has the parameter, or else `of_model`.
std::string bucket_of(const std::vector<Bucket>& buckets, std::string_view parameter,
                      const std::string& of_model);

// Returns whether a name of a bucket matches the parameter.
bool names_parameter(std::string_view name, std::string_view parameter);

}  // namespace rondo
