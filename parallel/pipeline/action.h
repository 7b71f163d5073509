// One action of a pipeline schedule: what a rank does with one stage, and mostly with one microbatch. Its
// text is that of torch.distributed.pipelining: the stage, the type, the microbatch, as in "0F3", "2SEND_B1"
// and "1REDUCE_GRAD".
//
//   F  forward                 I  gradients of a stage's inputs     UNSHARD, RESHARD  the stage's weights
//   B  whole backward, I + W   W  gradients of its weights          REDUCE_GRAD  its gradients, over data
//   SEND_F, RECV_F  activations to stage + 1, from stage - 1
//   SEND_B, RECV_B  gradients to stage - 1, from stage + 1
//
// Stages are numbered over the whole pipeline and live on one rank each. Plain values, 8 bytes.
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
  send_forward,  // each is beside its other end, see other_end()
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
// Of a stage and not of one of its microbatches.
constexpr bool is_of_stage(ActionType type) { return type >= ActionType::unshard; }
// Makes the gradients of a stage's inputs, or those of its weights.
constexpr bool makes_input_gradient(ActionType type) {
  return type == ActionType::backward || type == ActionType::backward_input;
}
constexpr bool makes_weight_gradient(ActionType type) {
  return type == ActionType::backward || type == ActionType::backward_weight;
}

inline constexpr std::int32_t kMostStages = 65535;
inline constexpr std::int32_t kMostMicrobatches = 10'000'000;

struct Action {
  std::int32_t microbatch = -1;  // -1: of a stage
  std::uint16_t stage = 0;
  ActionType type = ActionType::forward;
  // Runs together with the next action, as OVERLAP_F_B of DualPipeV: a forward, and a backward behind it.
  bool with_next = false;
  bool operator==(const Action&) const = default;
};

// The other end of a message: SEND_F of stage 0 is RECV_F of stage 1. REQUIRES: is_message, and that the
// stage exists.
constexpr Action other_end(Action message) {
  const bool up = message.type == ActionType::send_forward || message.type == ActionType::receive_backward;
  message.stage = static_cast<std::uint16_t>(message.stage + (up ? 1 : -1));
  message.type = static_cast<ActionType>(static_cast<unsigned>(message.type) ^ 1U);
  return message;
}

// The message that compute reads: RECV_F for F, RECV_B for B and I.
constexpr Action receive_of(const Action& compute) {
  const bool forward = compute.type == ActionType::forward;
  return {compute.microbatch, compute.stage,
          forward ? ActionType::receive_forward : ActionType::receive_backward, false};
}
// The one that takes what compute makes to the next stage, or gradients to the one before.
constexpr Action send_of(const Action& compute) {
  const bool forward = compute.type == ActionType::forward;
  return {compute.microbatch, compute.stage, forward ? ActionType::send_forward : ActionType::send_backward,
          false};
}

std::string print(const Action& action);  // one action, without what it runs together with

// "" where `text` is an action, which `action` then is, or else the rule that it breaks: "must be ...".
std::string read_action(std::string_view text, Action& action);

}  // namespace rondo::pipeline
