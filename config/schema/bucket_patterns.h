// compile.fsdp_buckets: which parameters are gathered and reduced together.
//
// An entry is a bucket: names separated by | or +. A name is a parameter, a module with all that is below it,
// or a pattern of either with * for any text. With a range, as layers.[0-5], an entry stands for a bucket for
// each number of it. torchtitan's graph trainer writes them so: "layers.[0-5]", "norm+output".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo {

struct Bucket {
  std::string name;                // the entry, with the number in place of the range
  std::vector<std::string> names;  // its parts
};

// The buckets of the entries, in their order. What is broken, "must ...", goes to `rule`, if that is asked
// for.
std::vector<Bucket> read_buckets(const std::vector<std::string>& entries, std::string* rule = nullptr);

// The first bucket that has the parameter, or the model's own.
std::string bucket_of(const std::vector<Bucket>& buckets, std::string_view parameter,
                      const std::string& of_model);

// Whether one name of a bucket means the parameter.
bool names_parameter(std::string_view name, std::string_view parameter);

}  // namespace rondo
