// The command line of `rondo launch`: torchrun's flags, their PET_<NAME> fallbacks, and what is refused.
//
// Read as support/flags/flags.h says. Flags end at `--` or at the first word that is not a flag; the rest is
// the program of the ranks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rondo::launch {

// torchrun's stream masks, e.g. "3" for all ranks or "0:1,1:2" by local rank: 1 is stdout, 2 stderr, 3 both.
struct StreamMask {
  int for_all = 0;
  std::map<int, int> by_local_rank;

  int of(int local_rank) const {
    const auto found = by_local_rank.find(local_rank);
    return found == by_local_rank.end() ? for_all : found->second;
  }
  bool any() const { return for_all != 0 || !by_local_rank.empty(); }
};

struct Endpoint {
  std::string host;  // empty: not given
  int port = 0;      // 0: not given
};

struct LaunchOptions {
  int ranks_per_node = 1;  // of this node; nodes may differ. 1..1024
  int nodes = 1;           // 1..10000
  std::optional<int> node_rank;
  std::string master_addr;         // empty: the rendezvous host, or 127.0.0.1 for one node
  std::optional<int> master_port;  // none, or 0: a free one
  bool uses_static_rendezvous = true;
  Endpoint rendezvous;  // filled in for several nodes
  std::string run_id = "none";
  std::string secret;  // what nodes prove to know: --rdzv-secret-file or RONDO_RDZV_SECRET, and the run id
  bool has_own_secret = false;  // not the run id alone
  double join_timeout_s = 600;
  double silence_timeout_s = 60;  // a node that says nothing for so long is lost
  int max_restarts = 0;
  double monitor_interval_s = 0.1;
  double shutdown_grace_s = 10;  // from SIGTERM to SIGKILL where another rank failed
  double signal_grace_s = 600;   // from a forwarded signal to SIGKILL: ranks may save first
  std::string role = "default";
  std::string log_dir;  // empty: none
  StreamMask redirects;
  StreamMask tee;
  std::set<int> local_ranks_filter;  // empty: all are shown
  std::string local_addr;            // empty: none
  std::vector<int> signals;          // forwarded to the ranks
  std::string signal_names;          // as given, for TORCHELASTIC_SIGNALS_TO_HANDLE
  bool runs_any_program =
      false;                // --no-python: `program` is looked up in PATH; else it is `rondo SUBCOMMAND`
  bool wants_help = false;  // it is printed
  std::vector<std::string> program;  // never empty unless wants_help
};

// All mistakes of the line are reported together: throws Error(usage), and Error(environment) where the
// machine lacks what a flag asks for (`--nproc-per-node gpu` without one).
LaunchOptions parse_options(const std::vector<std::string>& words);

// Whether `word` spells a flag of the launcher, with or without a value.
bool serves_flag(const std::string& word);

// Cores that this process may run on, at least 1.
int available_cores();

}  // namespace rondo::launch
