#include "compiler/plan/devices/accuracy.h"

#include <array>
#include <cstddef>

namespace rondo::ir {
namespace {

// In the order of JobClass. benchmarks/backcast.py --check compares them with the runs.
constexpr std::array<Accuracy, 7> kAccuracies = {{
    {"dense models on one node", 10},
    {"dense models on several nodes", 8},
    {"tensor parallelism", 11},
    {"float8", 6},
    {"rows of 32,768 tokens and more", 29},
    {"pipelines", 11},
    {"models with experts", 11},
}};

}  // namespace

Accuracy accuracy_of(JobClass job) { return kAccuracies.at(static_cast<std::size_t>(job)); }

}  // namespace rondo::ir
