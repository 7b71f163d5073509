// Changes of a step's graph that are mistakes of dividing it over ranks. Most apply at a place that
// a row of mistakes.cpp names.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/op.h"
#include "config/derived/pipeline_layout.h"
#include "tests/compiler/verify/patient.h"

namespace rondo::mistake {

using ir::Argument, ir::NodeIndex, ir::Patient, ir::Place, ir::Use, ir::UseList, ir::ValueId;
using Make = std::function<void(Patient&)>;

inline constexpr Phase F = Phase::forward, B = Phase::backward, U = Phase::update;
inline constexpr std::string_view kScatter = ir::kReduceScatter, kGather = ir::kAllGather,
                                  kReduce = ir::kAllReduce;
inline constexpr std::string_view kAdam = "rondo.adamw", kSquares = "rondo.sums_of_squares";
// Arguments of AdamW after parameters and moments.
enum : std::size_t { kGradients = 3, kCount = 4, kRate = 5, kClip = 6 };

Make left_out(Place at);
Make over(Place at, const char* group);
Make maximum(Place at);
Make again(Place at, const char* group);
Make scaled(Place at, double factor);
Make skipped(Place at, std::size_t argument = 0);
std::vector<ValueId>& list(Patient& p, std::string_view op, std::size_t argument);
std::size_t place_of(const Patient& p, const std::string& parameter);
// Exchanges two tensors in a list of AdamW and, if `in_norm`, in the list of the norm.
Make exchanged(std::size_t argument, const char* a, const char* b, bool in_norm = false);
// Exchanges the parameters that are gathered in two modules.
Make gathered_for_each_other(const std::string& a, const std::string& b, Phase phase);
// Replaces a scalar operand of AdamW by `op` of the operand and itself, or of the operand
// and `other`.
Make number(std::size_t argument, const char* op, std::optional<double> other = {});
// Scales all gradients before the optimizer, or before the norm as well.
Make all_gradients_scaled(double factor, bool before_norm);
Make norm_takes(const char* counted, const char* left_out);
ValueId input(const Patient& p, std::string_view name);
Make input_turned(const char* name, std::int64_t dim);
// Shifts positions by one on the second rank of tp.
void turn_on_one_rank(Patient& p);
void add_residual_before_the_sum(Patient& p);
void sum_before_activation(Patient& p);
// Exchanges the biases of the routers of two layers.
void exchange_biases(Patient& p);
// Returns the node that adds a microbatch to the sum of the previous ones.
NodeIndex addition_to(const Patient& p, std::string_view sum);
void keep_sum(Patient& p);
void take_neighbours_experts(Patient& p);
void replicas_are_not_summed(Patient& p);
void adam_takes_a_summand(Patient& p);
// Exchanges two pieces of the first bucket of the phase that is split into two pieces of one type.
Make pieces_exchanged(Phase phase, std::size_t dims);
// Exchanges two pieces of the first bucket of gradients that is concatenated from two of one type.
void put_together_otherwise(Patient& p);
// Exchanges the second and the third operand of the concatenation.
Make parts_exchanged(Place at);

// Makes the readers of an input read it times `factor`.
Make input_scaled(const std::string& name, double factor);
// Makes a stage send its received input `came` as `sent`.
Make sends_what_came(const std::string& sent, const std::string& came);
// Returns the action in a rank's program.
pipeline::Action& action(PipelineLayout& layout, std::size_t rank, const pipeline::Action& wanted);

}  // namespace rondo::mistake
