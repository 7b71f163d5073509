// One action of a pipeline schedule: what a rank does with one stage and, for most types, with one
// microbatch. The text format is that of torch.distributed.pipelining: stage, type and microbatch,
// as in "0F3", "2SEND_B1" and "1REDUCE_GRAD".
//
//   F  forward                       SEND_F, RECV_F  activations to stage + 1, from stage - 1
//   B  whole backward, I + W         SEND_B, RECV_B  gradients to stage - 1, from stage + 1
//   I  gradients of stage inputs     UNSHARD, RESHARD  weights of the stage
//   W  gradients of stage weights    REDUCE_GRAD  weight gradients of the stage, over data
//
// Stages are numbered over the whole pipeline, and each is on one rank. Plain values of 8 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace rondo::pipeline {

enum class ActionType : std::uint8_t {
  forward,
  backward,
  backward_input,
  backward_weight,
  send_forward,  // followed by its receive: other_end() flips the lowest bit
  receive_forward,
  send_backward,
  receive_backward,
  unshard,
  reshard,
  reduce_gradient,
};
inline constexpr std::size_t kActionTypes = 11;

std::string_view name_of(ActionType type);  // "SEND_F"

constexpr bool is_compute(ActionType type) { return type <= ActionType::backward_weight; }
constexpr bool is_send(ActionType type) {
  return type == ActionType::send_forward || type == ActionType::send_backward;
}
constexpr bool is_receive(ActionType type) {
  return type == ActionType::receive_forward || type == ActionType::receive_backward;
}
constexpr bool is_message(ActionType type) { return is_send(type) || is_receive(type); }
constexpr bool to_next_stage(ActionType send) { return send == ActionType::send_forward; }
// True for actions of a stage, which have no microbatch.
constexpr bool is_of_stage(ActionType type) { return type >= ActionType::unshard; }
// True for actions that compute the gradients of a stage's inputs.
constexpr bool makes_input_gradient(ActionType type) {
  return type == ActionType::backward || type == ActionType::backward_input;
}
// True for actions that compute the gradients of a stage's weights.
constexpr bool makes_weight_gradient(ActionType type) {
  return type == ActionType::backward || type == ActionType::backward_weight;
}

inline constexpr std::int32_t kMaxStages = 65535;
inline constexpr std::int32_t kMaxMicrobatches = 10'000'000;

struct Action {
  std::int32_t microbatch = -1;  // -1 for an action of a stage
  std::uint16_t stage = 0;
  ActionType type = ActionType::forward;
  // Runs together with the next action: a forward followed by a backward, as in
  // DualPipeV's OVERLAP_F_B.
  bool with_next = false;
  bool operator==(const Action&) const = default;
};

// Returns the other end of a message: RECV_F of stage 1 for SEND_F of stage 0. REQUIRES:
// is_message, and the other stage exists.
constexpr Action other_end(Action message) {
  const bool up = message.type == ActionType::send_forward || message.type == ActionType::receive_backward;
  message.stage = static_cast<std::uint16_t>(message.stage + (up ? 1 : -1));
  message.type = static_cast<ActionType>(static_cast<unsigned>(message.type) ^ 1U);
  return message;
}

// Returns the message that `compute` reads: RECV_F for F, RECV_B for B and I.
constexpr Action receive_of(const Action& compute) {
  const bool forward = compute.type == ActionType::forward;
  return {compute.microbatch, compute.stage,
          forward ? ActionType::receive_forward : ActionType::receive_backward, false};
}
// Returns the message with the output of `compute`: activations to the next stage, or gradients to
// the previous one.
constexpr Action send_of(const Action& compute) {
  const bool forward = compute.type == ActionType::forward;
  return {compute.microbatch, compute.stage, forward ? ActionType::send_forward : ActionType::send_backward,
          false};
}

std::string print(const Action& action);  // without the other action of a pair

// Parses `text` into `action`. Returns "" or the rule that `text` breaks: "must be ...".
std::string read_action(std::string_view text, Action& action);

}  // namespace rondo::pipeline
