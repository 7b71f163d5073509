// Which rank this process is, from the variables of whatever started it.
#pragma once

#include <string>

namespace rondo {

struct RankEnvironment {
  int rank = 0;
  int local_rank = 0;  // on its node
  int world_size = 1;
  int local_world_size = 1;  // ranks on this node
  int group_rank = 0;        // which node
  std::string master_addr = "127.0.0.1";
  int master_port = 0;  // 0: any, only for a process that is alone
  int master_listen_fd =
      -1;  // rank 0 under `rondo launch`: a socket that listens on master_port already, or is bound
  std::string run_id = "none";
  std::string store_token;  // under `rondo launch`: keeps the names in the store from being guessed
  int restart_count = 0;
  std::string source = "alone";  // "torchrun", "slurm", "openmpi", "hydra" or "alone"
};

// Reads, in this order: torchrun's variables (also `rondo launch`'s), mpirun's (Open MPI, then MPICH's
// Hydra), those of a Slurm step; else the process is alone, rank 0 of 1. mpirun comes before Slurm, because
// inside an allocation it starts its daemons with srun, and their task variables then reach the ranks. A
// batch script, or the shell of salloc, is no task of a step: a process there is alone. Throws
// Error(environment) where variables are missing, are no numbers or contradict each other; it names all of
// them.
RankEnvironment rank_environment();

}  // namespace rondo
