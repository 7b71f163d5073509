// A new run in a folder creates its files again. So a file that became shorter, or has another
// env.json in its folder, belongs to another run.
#include "runs/follow_run.h"

#include "support/error.h"
#include "support/files/file.h"
#include "support/files/file_lines.h"

namespace rondo {

namespace fs = std::filesystem;

RunFollower::RunFollower(fs::path folder) : folder_(std::move(folder)) {
  require_run_folder(folder_);
  begin();
}

void RunFollower::begin() {
  metrics_ = {folder_ / "metrics.jsonl"};
  events_ = {folder_ / "events.jsonl"};
  step_ = -1;
  record_ = {};
  record_.log.folder = folder_;
  record_.environment = json_object_in(folder_ / "env.json");
  record_.log.config = read_config(folder_ / "config.toml");
  record_.repeated_s = repeated_seconds(folder_);
}

bool RunFollower::read_on(Place& place, const std::function<void(std::string_view, std::int64_t)>& take) {
  std::error_code missing;
  if (!fs::exists(place.file, missing)) return place.offset == 0;
  FileLines file(place.file, FileUse::data, place.offset);
  if (file.bytes() < place.offset) return false;
  for (auto line = file.next(); line && file.is_complete(); line = file.next()) {
    place.offset += std::ssize(*line) + 1;
    take(*line, ++place.number);
  }
  return true;
}

const RunRecord& RunFollower::look() {
  const auto environment = json_object_in(folder_ / "env.json");
  if (environment != record_.environment) begin();
  const bool same = read_on(metrics_,
                            [&](std::string_view line, std::int64_t number) {
                              record_.log.steps.add(parse_step(line, metrics_.file, number, &step_));
                            }) &&
                    read_on(events_, [&](std::string_view line, std::int64_t) { record_.add_event(line); });
  if (!same) {
    begin();
    return look();
  }
  record_.exit = json_object_in(folder_ / "exit.json");
  record_.last_written_s = modified_s(metrics_.file);
  return record_;
}

}  // namespace rondo
