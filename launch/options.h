// The command line of `rondo launch`: torchrun's flags, their PET_<NAME> environment variables, and
// the flags that are refused.
//
// Parsed as described in support/flags/flags.h. Flags end at `--` or at the first word that is not
// a flag. The rest is the program of the ranks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rondo::launch {

// torchrun's stream masks: "3" for all ranks, or "0:1,1:2" by local rank. 1 is stdout, 2 stderr, 3
// both.
struct StreamMask {
  int for_all = 0;
  std::map<int, int> by_local_rank;

  int of(int local_rank) const {
    const auto mask = by_local_rank.find(local_rank);
    return mask == by_local_rank.end() ? for_all : mask->second;
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
  std::optional<int> master_port;  // nullopt or 0: a free port
  bool uses_static_rendezvous = true;
  Endpoint rendezvous;  // set for several nodes
  std::string run_id = "none";
  // nodes prove that they know it: --rdzv-secret-file or RONDO_RDZV_SECRET, and the run id
  std::string secret;
  bool has_own_secret = false;  // the secret is more than the run id
  double join_timeout_s = 600;
  double silence_timeout_s = 60;  // a node that sends nothing for this long is lost
  int max_restarts = 0;
  double monitor_interval_s = 0.1;
  double shutdown_grace_s = 10;  // from SIGTERM to SIGKILL after another rank failed
  double signal_grace_s = 600;   // from a forwarded signal to SIGKILL; ranks may save first
  std::string role = "default";
  std::string log_dir;  // empty: none
  StreamMask redirects;
  StreamMask tee;
  std::set<int> local_ranks_filter;  // empty: all are shown
  std::string local_addr;            // empty: none
  std::vector<int> signals;          // forwarded to the ranks
  std::string signal_names;          // as given, for TORCHELASTIC_SIGNALS_TO_HANDLE
  // --no-python: `program` is looked up in PATH. Otherwise it is a subcommand of rondo.
  bool runs_any_program = false;
  bool wants_help = false;           // help was printed
  std::vector<std::string> program;  // never empty unless wants_help
};

// Parses the command line. Throws one Error(usage) with all mistakes, and Error(environment) if the
// machine lacks what a flag requires (`--nproc-per-node gpu` without a GPU).
LaunchOptions parse_options(const std::vector<std::string>& words);

// Returns whether `word` is a flag of the launcher, with or without a value.
bool serves_flag(const std::string& word);

}  // namespace rondo::launch
