// A save is open, write, settle. Opening and settling are collective; writing runs on a thread and calls no
// collective. Ranks wait for each other by short exchanges, since writing may take longer than a collective's
// deadline. The outcome is broadcast, so all ranks count failures alike. State on a device, or state that may
// change meanwhile, is copied to the host first. Old checkpoints are pruned on a thread of their own: hashing
// them takes as long as it takes, and the next save waits only while some are deleted.
#include "trainer/resume/checkpoint_saver.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <span>

#include "support/error.h"
#include "support/log.h"
#include "support/text/size_text.h"
#include "support/watch/progress.h"
#include "trainer/checkpoint/prune.h"
#include "trainer/checkpoint/save.h"
#include "trainer/resume/checkpoint_choice.h"
#include "trainer/step/float_dtypes.h"

namespace rondo {
namespace {

using checkpoint::Kind;
using checkpoint::Piece;

Piece piece_of(const StatePart& part) {
  return checkpoint::piece_at(
      part.place, part.name, stored_name(part.tensor.scalar_type()),
      {static_cast<const std::byte*>(part.tensor.const_data_ptr()), part.tensor.nbytes()});
}

bool on_a_device(const std::vector<at::Tensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& tensor) { return !tensor.is_cpu(); });
}

// The first bytes of a tensor, wherever it lies, to memory of the host.
void copy_bytes(const at::Tensor& tensor, std::span<const std::byte> first, std::byte* to) {
  if (tensor.is_cpu()) {
    std::memcpy(to, first.data(), first.size());
    return;
  }
  const std::int64_t elements = static_cast<std::int64_t>(first.size()) / tensor.element_size();
  at::from_blob(to, {elements}, tensor.options().device(at::kCPU))
      .copy_(tensor.view({-1}).narrow(0, 0, elements));
}

}  // namespace

CheckpointSaver::CheckpointSaver(const Checkpoint& config, std::filesystem::path root, RunIdentity identity,
                                 ProcessGroups& groups, Report* report, bool writes)
    : config_(config),
      root_(std::move(root)),
      identity_(std::move(identity)),
      groups_(groups),
      report_(report),
      writes_(writes),
      saving_(store_, std::defer_lock) {
  if (report_ == nullptr || !std::filesystem::exists(root_)) return;
  for (const std::filesystem::path& folder : checkpoint::sweep_leftovers(root_))
    log_info("removed " + folder.string() + ", which an interrupted save left");
}

CheckpointSaver::~CheckpointSaver() {
  stop_pruning();
  join_threads();
  if (pending_ && report_ != nullptr) checkpoint::abandon(pending_->temp);
}

void CheckpointSaver::join_threads() {
  if (writer_.joinable()) writer_.join();
  if (pruner_.joinable()) pruner_.join();
}

// Until no rank is busy. Short exchanges instead of one long wait: writing takes as long as it takes, while a
// collective has a deadline, and a rank that dies is noticed at once.
void CheckpointSaver::wait_while(const std::function<bool()>& busy) {
  while (groups_.maximum({busy()})[0] != 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

std::string CheckpointSaver::key(const char* what) const {
  return fmt::format("checkpoint/{}/{}", saves_, what);
}

void CheckpointSaver::save(const std::vector<StatePart>& parts, const Progress& progress) {
  Pending pending;
  pending.progress = progress;
  for (const StatePart& part : parts) {
    if (!writes_ || !part.speaks) continue;
    pending.pieces.push_back(piece_of(part));
    pending.keeps_alive.push_back(part.tensor);
  }
  start(std::move(pending), config_.async_mode == "disabled");
}

bool CheckpointSaver::save_model(const std::vector<StatePart>& parts, const Progress& progress,
                                 const std::string& dtype, std::string_view suffix) {
  Pending pending;
  pending.kind = Kind::model;
  pending.suffix = suffix;
  pending.progress = progress;
  for (StatePart part : parts) {
    if (!writes_ || !part.of_model() || !part.speaks) continue;
    part.tensor = part.tensor.cpu();  // a GPU may have no room for all weights once more
    // The bias of a router is small, and moves by less than bfloat16 shows.
    if (!part.whole) part.tensor = part.tensor.to(float_named(dtype));
    pending.pieces.push_back(piece_of(part));
    pending.keeps_alive.push_back(part.tensor);
  }
  start(std::move(pending), /*waits=*/true);
  return failed_in_a_row_ == 0;
}

void CheckpointSaver::start(Pending pending, bool waits) {
  settle();
  wait_while([this] { return !saving_.owns_lock() && !saving_.try_lock(); });
  ++saves_;
  pending.stopwatch = {};
  if (!open(pending)) return;
  pending_ = std::move(pending);
  if (!waits || on_a_device(pending_->keeps_alive)) stage(*pending_);
  writing_ = true;
  writer_ = std::thread([this] { write(); });
  pending_->blocked_s = pending_->stopwatch.seconds();
  if (waits) settle();
}

// The folder, once there is room for all ranks' parts. False: it failed, and all ranks know.
bool CheckpointSaver::open(Pending& pending) {
  const std::vector<std::int64_t> bytes =
      groups_.all_gather(writes_ ? checkpoint::shard_bytes(pending.pieces) : 0);
  pending.bytes = std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
  std::string answer;
  if (report_ != nullptr) {
    try {
      pending.temp = checkpoint::begin_save(root_, pending.progress.step, identity_.run, identity_.attempt);
      checkpoint::check_space(pending.temp, pending.bytes, groups_.size() + 2);
      answer = "+" + pending.temp.string();
    } catch (const Error& error) {
      if (!pending.temp.empty()) checkpoint::abandon(pending.temp);
      answer = std::string("-") + error.what();
    }
  }
  answer = groups_.broadcast_text(key("folder"), answer);
  if (answer[0] == '+') {
    pending.temp = told_folder(answer.substr(1), root_, groups_.rank());
    return true;
  }
  saving_.unlock();
  failed(pending.progress.step, answer.substr(1));
  return false;
}

// Copies the pieces into one buffer of the host, so that the state may change while they are written.
void CheckpointSaver::stage(Pending& pending) {
  std::int64_t bytes = 0;
  for (const Piece& piece : pending.pieces) bytes += static_cast<std::int64_t>(piece.bytes.size());
  if (!staging_.defined() || staging_.numel() < bytes) {
    staging_.reset();
    staging_ = at::empty({bytes}, at::kByte);
  }
  auto* to = static_cast<std::byte*>(staging_.data_ptr());
  for (std::size_t i = 0; i < pending.pieces.size(); ++i) {
    Piece& piece = pending.pieces[i];
    copy_bytes(pending.keeps_alive[i], piece.bytes, to);
    piece.bytes = {to, piece.bytes.size()};
    to += piece.bytes.size();
  }
  pending.keeps_alive = {staging_};
}

void CheckpointSaver::write() {
  try {
    if (writes_)
      pending_->record = to_text(checkpoint::write_shard(pending_->temp, groups_.rank(), pending_->pieces));
  } catch (const std::exception& error) {
    pending_->problem = error.what();
  }
  writing_ = false;
}

bool CheckpointSaver::writing() const { return writing_; }

void CheckpointSaver::settle() {
  if (!pending_) return;
  const Stopwatch waiting;
  wait_while([this] { return writing_.load(); });
  writer_.join();
  const std::string mine = pending_->problem.empty()
                               ? "+" + pending_->record
                               : fmt::format("-rank {}: {}", groups_.rank(), pending_->problem);
  const std::vector<std::string> records = groups_.gather_text(key("record"), mine);
  const std::string problem =
      groups_.broadcast_text(key("outcome"), report_ == nullptr ? "" : commit(records));
  pending_->blocked_s += waiting.seconds();
  const Pending settled = std::move(*pending_);
  pending_.reset();
  saving_.unlock();
  if (problem.empty()) {
    done(settled);
  } else {
    failed(settled.progress.step, problem);
  }
}

// On rank 0: what went wrong, or "".
std::string CheckpointSaver::commit(const std::vector<std::string>& records) {
  std::string problem;
  try {
    checkpoint::Manifest manifest;
    put_progress(pending_->progress, manifest);
    manifest.run = identity_.run;
    manifest.kind = pending_->kind;
    manifest.created = checkpoint::utc_seconds();
    manifest.model = identity_.model;
    manifest.config_hash = identity_.config_hash;
    manifest.settings = identity_.settings;
    manifest.layout = identity_.layout;
    manifest.random = {{"seed", identity_.seed}};
    for (const std::string& record : records)
      if (record[0] == '-') throw Error(ExitCode::checkpoint, record.substr(1));
    for (const std::string& record : records)
      if (record.size() > 1)  // others do not write
        manifest.add(checkpoint::parse_shard_record(std::string_view(record).substr(1)));
    proven_.add(checkpoint::commit(root_, pending_->temp, manifest, pending_->suffix));
  } catch (const std::exception& error) {
    problem = error.what();
    checkpoint::abandon(pending_->temp);
  }
  return problem;
}

void CheckpointSaver::failed(std::int64_t step, const std::string& why) {
  ++failed_in_a_row_;
  if (report_ != nullptr) {
    log_warning(fmt::format("step {} was not saved: {}", step, why));
    report_->folder().event("checkpoint_failed", {{"step", step}, {"reason", why}});
  }
  if (failed_in_a_row_ < config_.max_failed_saves) return;
  throw Error(ExitCode::resources,
              fmt::format("{} saves in a row failed (checkpoint.max_failed_saves), the last one: {}",
                          failed_in_a_row_, why));
}

void CheckpointSaver::counts_as_saved(std::int64_t step) {
  last_saved_step_ = step;
  progress::saved(step);
}

void CheckpointSaver::done(const Pending& pending) {
  failed_in_a_row_ = 0;
  counts_as_saved(pending.progress.step);
  if (report_ == nullptr) return;
  const double seconds = pending.stopwatch.seconds();
  log_info(fmt::format("saved step {}{}: {} in {:.2f} s, of which training waited {:.2f} s",
                       pending.progress.step, pending.kind == Kind::model ? " (weights only)" : "",
                       size_text(pending.bytes), seconds, pending.blocked_s));
  report_->folder().event("checkpoint", {{"step", pending.progress.step},
                                         {"kind", pending.kind == Kind::model ? "model" : "full"},
                                         {"bytes", pending.bytes},
                                         {"seconds", seconds},
                                         {"waited_s", pending.blocked_s}});
  // Hashing and deleting terabytes takes minutes.
  if (config_.keep_latest_k == 0 || !prunes_ || pruning_) return;
  pruning_ = true;
  pruner_ = std::jthread([this](const std::stop_token& stop) {
    prune(stop);
    pruning_ = false;
  });
}

void CheckpointSaver::prune(const std::stop_token& stop) {
  try {
    const checkpoint::PrunePlan plan =
        checkpoint::plan_prune(root_, static_cast<int>(config_.keep_latest_k), proven_, stop);
    for (const checkpoint::Skipped& damaged : plan.damaged)
      log_warning(damaged.folder.string() + " is damaged: " + damaged.why);
    const std::unique_lock<std::mutex> deleting(store_, std::try_to_lock);
    if (deleting) checkpoint::carry_out(root_, plan);  // else a save has begun; the prune after it deletes
  } catch (const std::exception& error) {
    log_warning(std::string("old checkpoints stay for now: ") + error.what());
  }
}

void CheckpointSaver::stop_pruning() {
  prunes_ = false;
  pruner_.request_stop();
}

void CheckpointSaver::finish_pruning() {
  wait_while([this] { return pruning_.load(); });
}

}  // namespace rondo
