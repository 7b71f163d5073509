// A save has three phases: open, write, settle. Opening and settling are collective. Writing runs
// on a thread and calls no collective. Ranks wait for each other as in long_work.h, since a disk
// may take longer than the timeout of a collective. The outcome is broadcast, so all ranks count
// failures equally. State on a device, or state that may change during the save, is first copied to
// the host. A failed save is followed by a prune as well, which may free the space that it lacked.
#include "trainer/resume/checkpoint_saver.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

#include "checkpoint/save.h"
#include "support/error.h"
#include "support/log.h"
#include "support/text/size_text.h"
#include "support/text/utc_time.h"
#include "support/watch/progress.h"
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

// Copies the first bytes of a tensor on any device to host memory.
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
      writes_(writes) {
  if (report_ != nullptr) cleaner_.emplace(root_, config_.keep_latest_k);
}

CheckpointSaver::~CheckpointSaver() {
  stop_pruning();
  if (writer_.joinable()) writer_.join();
  cleaner_.reset();
  if (pending_ && report_ != nullptr) checkpoint::abandon(pending_->temp);
}

std::string CheckpointSaver::key(const char* what) const {
  return fmt::format("checkpoint/{}/{}", saves_, what);
}

void CheckpointSaver::save(const std::vector<StatePart>& parts, const TrainingProgress& progress) {
  Pending pending;
  pending.progress = progress;
  for (const StatePart& part : parts) {
    if (!writes_ || !part.is_writer) continue;
    pending.pieces.push_back(piece_of(part));
    pending.keeps_alive.push_back(part.tensor);
  }
  start(std::move(pending), config_.async_mode == AsyncMode::disabled);
}

bool CheckpointSaver::save_model(const std::vector<StatePart>& parts, const TrainingProgress& progress,
                                 Precision dtype, std::string_view suffix) {
  Pending pending;
  pending.kind = Kind::model;
  pending.suffix = suffix;
  pending.progress = progress;
  for (StatePart part : parts) {
    if (!writes_ || !part.of_model() || !part.is_writer) continue;
    part.tensor = part.tensor.cpu();  // a GPU may have no room for a copy of all weights
    // The bias of a router is small, and its changes are below the resolution of bfloat16.
    if (!part.whole) part.tensor = part.tensor.to(float_named(dtype));
    pending.pieces.push_back(piece_of(part));
    pending.keeps_alive.push_back(part.tensor);
  }
  start(std::move(pending), /*waits=*/true);
  return failed_in_a_row_ == 0;
}

void CheckpointSaver::start(Pending pending, bool waits) {
  settle();
  const auto is_deleting = [this] { return cleaner_ && !cleaner_->hold(); };
  wait_while(groups_, is_deleting, "deleting old checkpoints");
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

// Creates the folder after a check for space for all ranks' parts. Returns false on all ranks after
// a failure.
bool CheckpointSaver::open(Pending& pending) {
  const std::vector<std::int64_t> bytes =
      groups_.all_gather(writes_ ? checkpoint::shard_bytes(pending.pieces) : 0);
  pending.bytes = std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
  const auto begin = [&] {
    pending.temp = checkpoint::begin_save(root_, pending.progress.step, identity_.run, identity_.attempt);
    checkpoint::check_space(pending.temp, pending.bytes, groups_.size() + 2);
    return pending.temp.string();
  };
  const RankOutcome folder =
      do_on_first(groups_, begin, key("folder"), fmt::format("making a folder in {}", root_.string()));
  if (folder.ok()) {
    pending.temp = received_folder(folder.text, root_, groups_.rank());
    return true;
  }
  if (!pending.temp.empty()) checkpoint::abandon(pending.temp);
  if (cleaner_) cleaner_->release();
  report_failure(pending.progress.step, folder.text);
  return false;
}

// Copies the pieces into one host buffer, so that the state may change while they are written.
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
      pending_->written.text =
          to_text(checkpoint::write_shard(pending_->temp, groups_.rank(), pending_->pieces));
  } catch (const std::exception& error) {
    pending_->written = {ExitCode::checkpoint, fmt::format("rank {}: {}", groups_.rank(), error.what())};
  }
  writing_ = false;
}

bool CheckpointSaver::writing() const { return writing_; }

void CheckpointSaver::settle() {
  if (!pending_) return;
  const Stopwatch waiting;
  const std::string step = fmt::format("step {}", pending_->progress.step);
  wait_while(
      groups_, [this] { return writing_.load(); }, "writing this rank's part of " + step);
  writer_.join();
  const std::vector<std::string> records = groups_.gather_text(key("record"), pending_->written.to_wire());
  const auto commits = [&] {
    commit(records);
    return std::string();
  };
  const RankOutcome outcome = do_on_first(groups_, commits, key("outcome"), "committing " + step);
  pending_->blocked_s += waiting.seconds();
  const Pending settled = std::move(*pending_);
  pending_.reset();
  if (cleaner_) cleaner_->release();
  if (outcome.ok())
    report_saved(settled);
  else
    report_failure(settled.progress.step, outcome.text);
}

// Commits on rank 0. Throws Error(checkpoint) if that fails.
void CheckpointSaver::commit(const std::vector<std::string>& records) {
  try {
    checkpoint::Manifest manifest;
    put_progress(pending_->progress, manifest);
    put_begun(report_->folder().begun(), manifest);
    manifest.run = identity_.run;
    manifest.kind = pending_->kind;
    manifest.created = utc_now();
    manifest.model = identity_.model;
    manifest.config_hash = identity_.config_hash;
    manifest.settings = identity_.settings;
    manifest.layout = identity_.layout;
    manifest.random = {{"seed", identity_.seed}};
    for (const std::string& wire : records) {
      const std::string record = RankOutcome::from_wire(wire).value();
      if (!record.empty()) manifest.add(checkpoint::parse_shard_record(record));  // others do not write
    }
    cleaner_->add_proven(checkpoint::commit(root_, pending_->temp, manifest, pending_->suffix));
  } catch (const std::exception& error) {
    checkpoint::abandon(pending_->temp);
    throw Error(ExitCode::checkpoint, error.what());
  }
}

void CheckpointSaver::report_failure(std::int64_t step, const std::string& why) {
  ++failed_in_a_row_;
  if (report_ != nullptr) {
    log_warning(fmt::format("step {} was not saved: {}", step, why));
    report_->folder().event("checkpoint_failed", {{"step", step}, {"reason", why}});
  }
  if (cleaner_) cleaner_->prune();
  if (failed_in_a_row_ < config_.max_failed_saves) return;
  throw Error(ExitCode::resources,
              fmt::format("{} saves in a row failed (checkpoint.max_failed_saves), the last one: {}",
                          failed_in_a_row_, why));
}

void CheckpointSaver::counts_as_saved(std::int64_t step) {
  last_saved_step_ = step;
  progress::saved(step);
}

void CheckpointSaver::report_saved(const Pending& pending) {
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
  cleaner_->prune();
}

}  // namespace rondo
