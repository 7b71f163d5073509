// `rondo checkpoint ls | show | verify | prune`. Results go to stdout.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <ctime>

#include "apps/commands.h"
#include "support/error.h"
#include "support/text/nearest.h"
#include "support/text/size_text.h"
#include "trainer/checkpoint/catalog.h"
#include "trainer/checkpoint/committed.h"
#include "trainer/checkpoint/prune.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using namespace checkpoint;

constexpr const char* kHelp =
    "rondo checkpoint ls ROOT|RUN                         what is there, and in which state\n"
    "rondo checkpoint show DIR                            one checkpoint: facts, shards, tensors\n"
    "rondo checkpoint verify DIR|ROOT|RUN [--quick]       read and hash every byte (--quick: manifest, "
    "sizes)\n"
    "rondo checkpoint prune ROOT|RUN --keep K [--dry-run] keep the K newest valid ones, delete what is "
    "older\n\n"
    "DIR is a checkpoint (.../step-100), ROOT the folder of checkpoints, RUN a run folder (its `checkpoint`\n"
    "folder is taken). prune deletes only after the newest one has been read again, and never the last\n"
    "valid one.\n\n"
    "Exit code: 0 fine, 2 usage, 5 damaged, or none that is valid, 9 the disk is full.\n";

struct CheckpointOptions {
  std::string action;
  fs::path folder;
  bool quick = false, dry_run = false;
  int keep = 0;
};

[[noreturn]] void misused(const std::string& what) {
  throw Error(ExitCode::usage, "checkpoint: " + what + "; `rondo checkpoint --help` shows the usage");
}

int parse_keep(const std::string& text) {
  const bool digits = !text.empty() && text.size() < 7 && text.find_first_not_of("0123456789") == text.npos;
  if (!digits || std::stoi(text) == 0)
    misused(fmt::format("--keep \"{}\" must be a whole number of at least 1", text));
  return std::stoi(text);
}

// The flags that an action has.
std::vector<std::string> flags_of(const std::string& action) {
  if (action == "verify") return {"--quick"};
  if (action == "prune") return {"--keep", "--dry-run"};
  return {};
}

CheckpointOptions parse(const Arguments& args) {
  const std::vector<std::string> actions = {"ls", "show", "verify", "prune"};
  CheckpointOptions options{.action = args[0], .folder = {}};
  if (std::find(actions.begin(), actions.end(), args[0]) == actions.end())
    misused(fmt::format("unknown \"{}\"{}", args[0], did_you_mean(args[0], actions)));
  const std::vector<std::string> flags = flags_of(args[0]);
  for (std::size_t i = 1; i < args.size(); ++i) {
    const std::string name = args[i].substr(0, args[i].find('='));
    const bool has_value = name.size() < args[i].size();
    if (!name.starts_with("-")) {
      if (!options.folder.empty()) misused(fmt::format("one folder, please, not also \"{}\"", args[i]));
      options.folder = args[i];
    } else if (std::find(flags.begin(), flags.end(), name) == flags.end() ||
               (has_value && name != "--keep")) {
      misused(fmt::format("{} has no flag {}{}", args[0], args[i], did_you_mean(name, flags)));
    } else if (name == "--keep") {
      if (!has_value && i + 1 == args.size()) misused("--keep needs a number");
      options.keep = parse_keep(has_value ? args[i].substr(name.size() + 1) : args[++i]);
    } else {
      (name == "--quick" ? options.quick : options.dry_run) = true;
    }
  }
  if (options.folder.empty()) misused(args[0] + " which folder?");
  if (args[0] == "prune" && options.keep == 0) misused("prune needs --keep K, the number to keep");
  return options;
}

bool is_checkpoint(const fs::path& folder) {
  const auto name = parse_folder_name(fs::absolute(folder).lexically_normal().filename().string());
  return name || fs::exists(folder / kManifestFile) || has_mark(folder);
}

void require_folder(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    throw Error(ExitCode::checkpoint, fmt::format("there is no folder {}", folder.string()));
}

// The folder of checkpoints that `given` means: itself, or that of a run.
fs::path root_of(const fs::path& given) {
  require_folder(given);
  std::error_code ignored;
  return list(given).empty() && fs::is_directory(given / "checkpoint", ignored) ? given / "checkpoint"
                                                                                : given;
}

// "3 min" since a time as in a manifest; "-" where it is none.
std::string age_text(const std::string& created) {
  std::tm parts{};
  if (::strptime(created.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts) == nullptr) return "-";
  const double s = std::difftime(std::time(nullptr), ::timegm(&parts));
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
               section->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  std::size_t width = 6;
  for (const TensorRecord& tensor : m.tensors) width = std::max(width, tensor.name.size());
  fmt::print("\n  {:<{}}  {:<7}  {:>11}  {}\n", "tensor", width, "dtype", "size", "shape");
  for (const TensorRecord& tensor : m.tensors)
    fmt::print("  {:<{}}  {:<7}  {:>11}  [{}]\n", tensor.name, width, tensor.dtype,
               size_text(elements_of(tensor.shape, tensor.dtype) * dtype_bytes(tensor.dtype)),
               fmt::join(tensor.shape, ", "));
  return 0;
}

// Prints what was found; true where the checkpoint is valid.
bool report(const fs::path& folder, bool quick) {
  constexpr std::size_t kMostShown = 10;
  const Verdict verdict = verify(folder, quick ? Depth::quick : Depth::full);
  if (verdict.valid()) {
    fmt::print(
        "{}: valid ({})\n", folder.string(),
        quick ? "manifest and sizes" : fmt::format("{} read and hashed", size_text(verdict.bytes_read)));
    return true;
  }
  fmt::print("{}: DAMAGED\n", folder.string());
  for (std::size_t i = 0; i < std::min(kMostShown, verdict.problems.size()); ++i)
    fmt::print("  {}\n", verdict.problems[i]);
  if (verdict.problems.size() > kMostShown)
    fmt::print("  and {} more\n", verdict.problems.size() - kMostShown);
  return false;
}

int verify_all(const fs::path& given, bool quick) {
  require_folder(given);
  constexpr int kBad = static_cast<int>(ExitCode::checkpoint);
  if (is_checkpoint(given)) return report(given, quick) ? 0 : kBad;
  const fs::path root = root_of(given);
  bool any_valid = false, any_damaged = false;
  for (const Entry& entry : list(root)) {
    if (entry.state == State::temp || entry.state == State::uncommitted) {
      fmt::print("{}: skipped, {}: {}\n", entry.folder.string(), state_name(entry.state), entry.why);
    } else if (report(entry.folder, quick)) {
      any_valid = true;
    } else {
      any_damaged = true;
    }
  }
  if (!any_valid) fmt::print("no valid checkpoint in {}\n", root.string());
  return any_valid && !any_damaged ? 0 : kBad;
}

int prune_all(const fs::path& root, int keep, bool dry_run) {
  const PruneReport report = prune(root, keep, dry_run);
  for (const fs::path& folder : report.kept) fmt::print("kept     {}\n", folder.string());
  for (const Skipped& skipped : report.damaged)
    fmt::print("skipped  {}: {}\n", skipped.folder.string(), skipped.why);
  for (const fs::path& folder : report.deleted)
    fmt::print("{}  {}\n", dry_run ? "would go" : "deleted", folder.string());
  if (report.kept.empty()) fmt::print("no valid checkpoint in {}: nothing is deleted\n", root.string());
  return report.kept.empty() ? static_cast<int>(ExitCode::checkpoint) : 0;
}

}  // namespace

int run_checkpoint(const Arguments& args) {
  if (args.empty()) misused("ls, show, verify or prune?");
  for (const std::string& word : args) {
    if (word != "--help" && word != "-h") continue;
    std::fputs(kHelp, stdout);
    return 0;
  }
  const CheckpointOptions options = parse(args);
  if (options.action == "ls") return list_checkpoints(root_of(options.folder));
  if (options.action == "show") return show(options.folder);
  if (options.action == "verify") return verify_all(options.folder, options.quick);
  return prune_all(root_of(options.folder), options.keep, options.dry_run);
}

}  // namespace rondo
