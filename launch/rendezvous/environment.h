// Determines this process's rank from the environment variables of its launcher.
#pragma once

#include <string>

namespace rondo {

struct RankEnvironment {
  int rank = 0;
  int local_rank = 0;  // on its node
  int world_size = 1;
  int local_world_size = 1;  // ranks on this node
  int group_rank = 0;        // rank of the node
  std::string master_addr = "127.0.0.1";
  int master_port = 0;  // 0: any; only for a process that runs alone
  // Rank 0 under `rondo launch`: a socket that is bound to master_port, and may already listen.
  int master_listen_fd = -1;
  std::string run_id = "none";
  std::string store_token;  // set by `rondo launch`: makes the names in the store unguessable
  int restart_count = 0;
  std::string source = "alone";  // "torchrun", "slurm", "openmpi", "hydra" or "alone"
};

// Reads, in this order: torchrun's variables (also set by `rondo launch`), mpirun's (Open MPI, then
// MPICH's Hydra), a Slurm step's. Otherwise the process runs alone, as rank 0 of 1. mpirun comes
// before Slurm: inside an allocation it starts its daemons with srun, and their task variables
// reach the ranks. A process in a batch script or in the shell of salloc is no task of a step and
// runs alone. Throws Error(environment) if variables are missing, are not numbers or contradict
// each other; the message names all of them. Variables of two launchers contradict each other
// unless each process of the outer one starts equally many ranks of the inner one. A launcher of a
// node (TORCHELASTIC_RUN_ID) and the daemons of mpirun are not compared with their step.
RankEnvironment rank_environment();

}  // namespace rondo
