#include "compiler/plan/devices/accuracy.h"

#include <array>
#include <cstddef>

namespace rondo::ir {
namespace {

// In the order of JobClass. benchmarks/backcast.py --check compares them with the runs.
constexpr std::array<Accuracy, 7> kAccuracies = {{
    {"dense models on one node", 15},
    {"dense models on several nodes", 15},
    {"tensor parallelism", 33},
    {"float8", 20},
    {"rows of 32,768 tokens and more", 51},
    {"pipelines", 51},
    {"models with experts", 55},
}};

}  // namespace

Accuracy accuracy_of(JobClass job) { return kAccuracies.at(static_cast<std::size_t>(job)); }

}  // namespace rondo::ir
