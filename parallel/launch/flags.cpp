#include "parallel/launch/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace rondo::launch {
namespace {

constexpr std::array kFlags = {
    Flag{"nproc-per-node", "", Shape::value, "N|auto|cpu|gpu", "ranks on this node (default 1)"},
    Flag{"nnodes", "", Shape::value, "N", "nodes (default 1); MIN:MAX only where both are equal"},
    Flag{"node-rank", "", Shape::value, "K",
         "which node this is; without it nodes are numbered as they join"},
    Flag{"master-addr", "", Shape::value, "HOST", "where rank 0 listens (default 127.0.0.1)"},
    Flag{"master-port", "", Shape::value, "PORT", "its port (default: a free one; several nodes: 29500)"},
    Flag{"rdzv-backend", "", Shape::value, "static|c10d", "both are served by the launcher's own protocol"},
    Flag{"rdzv-endpoint", "", Shape::value, "HOST[:PORT]", "where nodes meet; on that host runs node 0"},
    Flag{"rdzv-id", "", Shape::value, "ID", "name of the job; nodes with another one are turned away"},
    Flag{"rdzv-conf", "", Shape::value, "K=V,...", "timeout, join_timeout (600), read_timeout (5), seconds"},
    Flag{"standalone", "", Shape::toggle, "", "one node on a free port, whatever the flags above say"},
    Flag{"max-restarts", "", Shape::value, "N",
         "restart all ranks up to N times after a failure (default 0)"},
    Flag{"monitor-interval", "", Shape::value, "SECONDS", "longest sleep of the launcher (default 0.1)"},
    Flag{"shutdown-grace", "", Shape::value, "SECONDS", "between SIGTERM and SIGKILL (default 10)"},
    Flag{"role", "", Shape::value, "NAME",
         "role of the ranks, shown before their lines (default \"default\")"},
    Flag{"log-dir", "", Shape::value, "DIR", "DIR/ID/attempt_N/LOCAL_RANK/{stdout,stderr}.log"},
    Flag{"redirects", "-r", Shape::value, "MASK", "streams to files only: 3, or 0:1,1:2 by local rank"},
    Flag{"tee", "-t", Shape::value, "MASK", "streams to files and to the console"},
    Flag{"local-ranks-filter", "", Shape::value, "0,1", "only these local ranks reach the console"},
    Flag{"local-addr", "", Shape::value, "ADDR", "address of this node to connect from and to listen on"},
    Flag{"signals-to-handle", "", Shape::value, "SIG,...", "signals that are passed on to the ranks"},
    Flag{"no-python", "", Shape::toggle, "", "run any program instead of a subcommand of rondo"},
    Flag{"help", "-h", Shape::toggle, "", "this page"},
    Flag{"module", "-m", Shape::refused, "Rondo runs no Python; use --no-python PROGRAM ARGS", ""},
    Flag{"run-path", "", Shape::refused, "Rondo runs no Python; use --no-python PROGRAM ARGS", ""},
    Flag{"start-method", "", Shape::refused, "ranks are always started by fork and exec", ""},
    Flag{"event-log-handler", "", Shape::refused, "there are no event handlers", ""},
    Flag{"logs-specs", "", Shape::refused, "there are no plug-ins; use --log-dir, --redirects and --tee", ""},
    Flag{"numa-binding", "", Shape::refused, "bind with numactl in a --no-python line", ""},
    Flag{"virtual-local-rank", "", Shape::refused, "ranks pick their device by LOCAL_RANK", ""},
    Flag{"duplicate-stdout-filters", "", Shape::refused, "use --tee and grep the files", ""},
    Flag{"duplicate-stderr-filters", "", Shape::refused, "use --tee and grep the files", ""},
};

}  // namespace

std::span<const Flag> all_flags() { return kFlags; }

const Flag* find_flag(std::string spelt) {
  if (spelt.rfind("--", 0) == 0) std::replace(spelt.begin(), spelt.end(), '_', '-');
  for (const Flag& flag : kFlags)
    if (spelt == std::string("--") + flag.name || (*flag.short_name && spelt == flag.short_name))
      return &flag;
  return nullptr;
}

std::vector<std::string> served_flags() {
  std::vector<std::string> names;
  for (const Flag& flag : kFlags)
    if (flag.shape != Shape::refused) names.push_back(std::string("--") + flag.name);
  return names;
}

std::string environment_name(const Flag& flag) {
  std::string name = std::string("PET_") + flag.name;
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string help_text() {
  std::string text =
      "rondo launch FLAGS -- train ...             run `rondo train ...` as the ranks of a job\n"
      "rondo launch FLAGS --no-python PROGRAM ...  run any program\n\n"
      "The flags are torchrun's; each may also come from the environment as PET_<NAME>, e.g. "
      "PET_NNODES=2.\n\n";
  for (const Flag& flag : kFlags) {
    if (flag.shape == Shape::refused) continue;
    const std::string left = fmt::format(
        "{}--{} {}", *flag.short_name ? std::string(flag.short_name) + ", " : "", flag.name, flag.value);
    text += fmt::format("  {:<36} {}\n", left, flag.help);
  }
  return text +
         "\nThe exit code is that of the first rank that failed, or 128 + n where signal n killed it.\n";
}

}  // namespace rondo::launch
