// A sentence is a template. A place in braces is a field. A part in brackets is left out if one of
// its fields is missing. A run folder may hold anything, so a field of a wrong type is its text.
#include "runs/event_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "support/text/size_text.h"

namespace rondo {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::pair<std::string_view, std::string_view>, 15> kSentences = {{
    {"start", "started; ranks: {ranks}[; the previous run {run_before}]"},
    {"model",
     "model {name}[ {flavor}], {parameters} parameters[, layout {layout}][, {tokens_per_step} tokens a "
     "step]"},
    {"device", "device {name}[, {memory_bytes}]"},
    {"data",
     "data: {tokens} tokens, documents: {documents}[, held out for validation: {held_out_documents}]"
     "[; the run takes {tokens_of_run} tokens]"},
    {"experts", "experts on {ranks} ranks, with room for {rows} rows of a layer, {bytes}"},
    {"compiled", "compiled {function}[, traced in {trace_ms} ms]"},
    {"replaying", "replays {ops} ops a step[, {arena_bytes} planned]"},
    {"training", "training goes on with step {step}[ after {seconds} s]"},
    {"validation", "validation loss {loss} at step {step}"},
    {"resumed", "resumed after step {step}[ from {from}][, read in {seconds} s]"},
    {"checkpoint",
     "saved step {step}[ ({kind})][: {bytes}][ in {seconds} s][; training waited {waited_s} s]"},
    {"checkpoint_failed", "step {step} was not saved: {reason}"},
    {"held_up", "{culprit}"},
    {"warning", "warning: {text}"},
    {"finished", "finished at step {step}"},
}};

// Returns nullopt for what has no text: null, "", and nested values.
std::optional<std::string> field_text(const std::string& key, const ordered_json& value) {
  if (key == "culprit" && value.is_object()) return field_text("text", value.value("text", ordered_json()));
  if (value.is_structured() || value.is_null() || value == "") return std::nullopt;
  if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
  if (!value.is_number_integer()) return text_of_json(value);
  if (key == "bytes" || key.ends_with("_bytes") || key.find("_bytes_") != key.npos)
    return size_text(value.get<std::int64_t>());
  if (key != "step" && std::abs(value.get<double>()) >= 1e4) return count_text(value.get<std::int64_t>());
  return text_of_json(value);
}

// Returns nullopt if a field outside of brackets is missing.
std::optional<std::string> filled(std::string_view sentence, const ordered_json& event) {
  std::string text;
  for (std::size_t at = 0; at < sentence.size();) {
    const bool optional = sentence[at] == '[';
    if (optional || sentence[at] == '{') {
      const std::size_t end = sentence.find(optional ? ']' : '}', at);
      const std::string inner(sentence.substr(at + 1, end - at - 1));
      const auto it = optional ? event.end() : event.find(inner);
      const auto part = optional            ? filled(inner, event)
                        : it == event.end() ? std::nullopt
                                            : field_text(inner, *it);
      if (!part && !optional) return std::nullopt;
      text += part.value_or("");
      at = end + 1;
    } else {
      text += sentence[at++];
    }
  }
  return text;
}

std::string fields_text(const ordered_json& event) {
  std::vector<std::string> words;
  for (const auto& [key, value] : event.items()) {
    const auto text = key == "time" || key == "event" ? std::nullopt : field_text(key, value);
    if (!text) continue;
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', ' ');
    words.push_back(name + " " + *text);
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string text_at(const ordered_json& object, const char* key) {
  return text_of_json(object.value(key, ordered_json("")));
}

}  // namespace

std::string event_sentence(const ordered_json& event) {
  const std::string name = text_at(event, "event");
  for (const auto& [known, sentence] : kSentences)
    if (known == name)
      if (auto text = filled(sentence, event)) return *text;
  return name + ": " + fields_text(event);
}

std::vector<TimedEvent> last_events(const RunRecord& run, std::size_t most) {
  std::vector<TimedEvent> events;
  for (const ordered_json& event : run.events)
    if (run.events.size() <= most || text_at(event, "event") != "validation")
      events.push_back({text_at(event, "time"), event_sentence(event)});
  if (!run.exit.is_null() && run.state() != "finished")
    events.push_back({text_at(run.exit, "ended_at"), run.state()});
  if (events.size() > most) events.erase(events.begin(), events.end() - static_cast<std::ptrdiff_t>(most));
  return events;
}

}  // namespace rondo
