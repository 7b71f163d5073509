#include "trainer/resume/training_progress.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "support/error.h"

namespace rondo {
namespace {

// JSON readers with doubles would round a 64-bit number, so it is text.
std::string hexadecimal(std::uint64_t number) { return fmt::format("{:016x}", number); }
std::uint64_t from_hexadecimal(const std::string& text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return number;
}

}  // namespace

void put_progress(const TrainingProgress& p, checkpoint::Manifest& manifest) {
  manifest.step = p.step;
  manifest.train_state = {{"step", p.step},
                          {"schedule_step", p.schedule_step},
                          {"tokens_seen", p.tokens_seen},
                          {"went_back_to", p.went_back_to},
                          {"began_anew", p.reset_parts}};
  manifest.data = {{"step", p.data.step},       {"sample", p.data.sample},
                   {"seed", p.data.seed},       {"seq_len", p.data.seq_len},
                   {"shuffle", p.data.shuffle}, {"fingerprint", hexadecimal(p.data.fingerprint)}};
  if (p.data.content) manifest.data["content"] = hexadecimal(*p.data.content);
}

void put_begun(const std::string& begun, checkpoint::Manifest& manifest) {
  manifest.train_state["begun"] = begun;
}

std::string begun_of(const checkpoint::Manifest& manifest) {
  const auto begun = manifest.train_state.find("begun");
  return begun != manifest.train_state.end() && begun->is_string() ? begun->get<std::string>() : "";
}

TrainingProgress progress_of(const checkpoint::Manifest& manifest) {
  const nlohmann::json &train = manifest.train_state, &data = manifest.data;
  RONDO_ASSERT(!train.empty(), "nothing resumes from imported weights");
  TrainingProgress p;
  train.at("step").get_to(p.step);
  train.at("schedule_step").get_to(p.schedule_step);
  train.at("tokens_seen").get_to(p.tokens_seen);
  train.at("went_back_to").get_to(p.went_back_to);
  if (const nlohmann::json& parts = train.at("began_anew"); parts.is_object())
    parts.get_to(p.reset_parts);
  else  // a list of names
    for (const nlohmann::json& part : parts) p.reset_parts[part.get<std::string>()] = -1;
  data.at("step").get_to(p.data.step);
  data.at("sample").get_to(p.data.sample);
  data.at("seed").get_to(p.data.seed);
  data.at("seq_len").get_to(p.data.seq_len);
  data.at("shuffle").get_to(p.data.shuffle);
  p.data.fingerprint = from_hexadecimal(data.at("fingerprint"));
  if (data.contains("content")) p.data.content = from_hexadecimal(data.at("content"));
  return p;
}

}  // namespace rondo
