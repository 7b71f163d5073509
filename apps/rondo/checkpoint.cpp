// `rondo checkpoint ls | show | verify | prune`. Results go to stdout.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <ctime>
#include <optional>

#include "apps/commands.h"
#include "apps/model_source.h"
#include "apps/rondo/subcommands.h"
#include "checkpoint/catalog.h"
#include "checkpoint/committed.h"
#include "checkpoint/prune.h"
#include "checkpoint/save.h"
#include "support/error.h"
#include "support/flags/flags.h"
#include "support/text/size_text.h"
#include "support/text/utc_time.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using namespace checkpoint;

bool is_checkpoint(const fs::path& folder) {
  const auto name = parse_folder_name(fs::absolute(folder).lexically_normal().filename().string());
  return name || fs::exists(folder / kManifestFile) || has_mark(folder);
}

void require_folder(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    throw Error(
        ExitCode::checkpoint,
        fmt::format("no such folder: {}; name the folder of checkpoints or of the run", folder.string()));
}

fs::path root_of(const fs::path& given) {
  require_folder(given);
  return list(given).empty() ? checkpoint_root_of(given) : given;
}

// Returns the age of a manifest's time, such as "3 min", or "-" if it cannot be parsed.
std::string age_text(const std::string& created) {
  const std::optional<double> created_s = utc_seconds(created);
  if (!created_s) return "-";
  const double s = static_cast<double>(std::time(nullptr)) - *created_s;
  if (s < 120) return fmt::format("{:.0f} s", s);
  if (s < 120 * 60) return fmt::format("{:.0f} min", s / 60);
  if (s < 48 * 3600) return fmt::format("{:.0f} h", s / 3600);
  return fmt::format("{:.0f} days", s / 86400);
}

const char* kind_name(Kind kind) { return kind == Kind::full ? "full" : "model"; }

int list_checkpoints(const fs::path& root) {
  const std::vector<Entry> entries = list(root);
  if (entries.empty()) {
    fmt::print("no checkpoints in {}\n", root.string());
    return static_cast<int>(ExitCode::checkpoint);
  }
  fmt::print("{:<24}{:>10}  {:<13}{:<7}{:>11}{:>8}{:>9}\n", root.filename().string(), "step", "state", "kind",
             "size", "shards", "age");
  bool any_valid = false, any_damaged = false;
  for (const Entry& entry : entries) {
    any_valid = any_valid || entry.state == State::committed;
    any_damaged = any_damaged || entry.state == State::damaged;
    const std::string name = entry.folder.filename().string();
    if (entry.manifest)
      fmt::print("{:<24}{:>10}  {:<13}{:<7}{:>11}{:>8}{:>9}\n", name, entry.step, state_name(entry.state),
                 kind_name(entry.manifest->kind), size_text(entry.manifest->bytes()),
                 entry.manifest->shards.size(), age_text(entry.manifest->created));
    else
      fmt::print("{:<24}{:>10}  {:<13}{}\n", name, entry.step, state_name(entry.state), entry.why);
  }
  return any_valid && !any_damaged ? 0 : static_cast<int>(ExitCode::checkpoint);
}

int show(const fs::path& folder) {
  require_folder(folder);
  const Manifest m = read_committed(folder);
  check_sizes(folder, m);
  fmt::print("{}\n  step         {}\n  kind         {}\n  run          {}\n  created      {} ({} ago)\n",
             folder.string(), m.step, kind_name(m.kind), m.run, m.created, age_text(m.created));
  fmt::print("  model        {} (fingerprint {})\n  config hash  {}\n  size         {} in {} shards\n",
             m.model.name, m.model.fingerprint, m.config_hash, size_text(m.bytes()), m.shards.size());
  const std::pair<const char*, const nlohmann::json*> sections[] = {
      {"layout", &m.layout}, {"data", &m.data}, {"random", &m.random}, {"train_state", &m.train_state}};
  for (const auto& [name, section] : sections)
    fmt::print("  {:<12} {}\n", name,
               section->dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace));
  std::size_t width = 6;
  for (const TensorRecord& tensor : m.tensors) width = std::max(width, tensor.name.size());
  fmt::print("\n  {:<{}}  {:<7}  {:>11}  {}\n", "tensor", width, "dtype", "size", "shape");
  for (const TensorRecord& tensor : m.tensors)
    fmt::print("  {:<{}}  {:<7}  {:>11}  [{}]\n", tensor.name, width, tensor.dtype,
               size_text(elements_of(tensor.shape, tensor.dtype) * dtype_bytes(tensor.dtype)),
               fmt::join(tensor.shape, ", "));
  return 0;
}

// Verifies a checkpoint, and prints the verdict. `listed`: it was committed before.
Verdict report(const fs::path& folder, bool quick, bool listed) {
  constexpr std::size_t kMaxShown = 10;
  Verdict verdict = verify(folder, quick ? Depth::quick : Depth::full);
  if (listed && verdict.is_deleted()) {
    fmt::print("{}: deleted while it was read\n", folder.string());
    return verdict;
  }
  if (verdict.valid()) {
    fmt::print(
        "{}: valid ({})\n", folder.string(),
        quick ? "manifest and sizes" : fmt::format("{} read and hashed", size_text(verdict.bytes_read)));
    return verdict;
  }
  fmt::print("{}: DAMAGED\n", folder.string());
  for (std::size_t i = 0; i < std::min(kMaxShown, verdict.problems.size()); ++i)
    fmt::print("  {}\n", verdict.problems[i]);
  if (verdict.problems.size() > kMaxShown) fmt::print("  and {} more\n", verdict.problems.size() - kMaxShown);
  return verdict;
}

int verify_all(const fs::path& given, bool quick) {
  require_folder(given);
  constexpr int kBad = static_cast<int>(ExitCode::checkpoint);
  constexpr int kMaxTries = 10;  // while a run deletes what was listed
  if (is_checkpoint(given)) return report(given, quick, has_mark(given)).valid() ? 0 : kBad;
  const fs::path root = root_of(given);
  bool any_valid = false, any_damaged = false, any_deleted = true;
  for (int tries = 0; tries < kMaxTries && any_deleted && !any_valid; ++tries) {
    any_deleted = false;
    for (const Entry& entry : list(root)) {
      if (entry.state == State::temp || entry.state == State::uncommitted) {
        fmt::print("{}: skipped, {}: {}\n", entry.folder.string(), state_name(entry.state), entry.why);
        continue;
      }
      const Verdict verdict = report(entry.folder, quick, /*listed=*/true);
      any_valid |= verdict.valid();
      any_deleted |= verdict.is_deleted();
      any_damaged |= !verdict.valid() && !verdict.is_deleted();
    }
  }
  if (!any_valid) fmt::print("no valid checkpoint in {}\n", root.string());
  return any_valid && !any_damaged ? 0 : kBad;
}

// Prints the steps that remain resumable after the plan, and those that do not.
void print_resumable_steps(const PrunePlan& plan) {
  std::vector<std::int64_t> steps;
  for (const fs::path& folder : plan.kept)
    steps.push_back(parse_folder_name(folder.filename().string())->step);
  fmt::print("a run can resume from step {}", fmt::join(steps, ", "));
  if (!plan.lost_steps.empty()) fmt::print(", and no longer from step {}", fmt::join(plan.lost_steps, ", "));
  fmt::print("\n");
}

int prune_all(const fs::path& root, int keep, bool dry_run) {
  std::optional<FolderLock> lock;
  if (!dry_run) lock = lock_root(root);
  Proven proven;
  const PrunePlan plan = plan_prune(root, keep, proven);
  for (const fs::path& folder : plan.kept) fmt::print("kept     {}\n", folder.string());
  for (const auto* ignored : {&plan.beside, &plan.damaged})
    for (const Skipped& skipped : *ignored)
      fmt::print("skipped  {}: {}\n", skipped.folder.string(), skipped.why);
  if (plan.kept.empty()) {
    fmt::print("{} has no checkpoint that a run could resume from; nothing is deleted\n", root.string());
    return static_cast<int>(ExitCode::checkpoint);
  }
  if (!dry_run) carry_out(root, plan);
  for (const fs::path& folder : plan.deleted)
    fmt::print("{}  {}\n", dry_run ? "would go" : "deleted", folder.string());
  print_resumable_steps(plan);
  return 0;
}

constexpr const char* kExitCodes =
    "Exit code: 0 done, 2 usage, 5 damaged or no valid checkpoint, 6 a run is writing there, 9 disk full.";
constexpr const char* kRoot = "folder of checkpoints, or a run folder (uses its `checkpoint`)";

int run_ls(const Arguments& args) {
  fs::path folder;
  Flags flags("checkpoint ls", "Lists the checkpoints of a run, newest first, and their state.", kExitCodes);
  flags.positional("ROOT|RUN", flag::text(&folder), kRoot, Need::required);
  return flags.read(args) ? list_checkpoints(root_of(folder)) : 0;
}

int run_show(const Arguments& args) {
  fs::path folder;
  Flags flags("checkpoint show", "Prints the facts, shards and tensors of a checkpoint.", kExitCodes);
  flags.positional("DIR", flag::text(&folder), "a checkpoint (.../step-100)", Need::required);
  return flags.read(args) ? show(folder) : 0;
}

int run_verify(const Arguments& args) {
  fs::path folder;
  bool quick = false;
  Flags flags("checkpoint verify", "Reads and hashes every byte of one checkpoint, or of all.", kExitCodes);
  flags.positional("DIR|ROOT|RUN", flag::text(&folder), std::string("a checkpoint (.../step-100), ") + kRoot,
                   Need::required);
  flags.toggle("--quick", &quick, "check only the manifest and the file sizes");
  return flags.read(args) ? verify_all(folder, quick) : 0;
}

int run_prune(const Arguments& args) {
  fs::path folder;
  int keep = 0;
  bool dry_run = false;
  Flags flags(
      "checkpoint prune",
      "Keeps the K newest checkpoints that a run can resume from and deletes older ones. Checkpoints\nthat "
      "are kept are read and hashed first. Exported weights, damaged and replaced checkpoints do\nnot count.",
      kExitCodes);
  flags.positional("ROOT|RUN", flag::text(&folder), kRoot, Need::required);
  flags.value("--keep", "K", flag::whole(&keep, 1, 999'999), "number of checkpoints to keep", Need::required);
  flags.toggle("--dry-run", &dry_run, "print what would be deleted, and delete nothing");
  return flags.read(args) ? prune_all(root_of(folder), keep, dry_run) : 0;
}

}  // namespace

int run_checkpoint(const Arguments& args) {
  return run_subcommand("checkpoint",
                        {{"ls", "list the checkpoints and their states", run_ls},
                         {"show", "print the facts, shards and tensors of a checkpoint", run_show},
                         {"verify", "read and hash every byte", run_verify},
                         {"prune", "keep the newest resumable checkpoints, delete older ones", run_prune}},
                        kExitCodes, args);
}

}  // namespace rondo
