// What started this process, as its environment tells: whether it is one of many, and which MPI library they share.
#ifndef SCRIMP_RUNTIME_LAUNCH_H
#define SCRIMP_RUNTIME_LAUNCH_H

#include "scrimp/runtime/Communicator.h"

namespace scrimp::runtime {

struct Launch {
  enum class Kind {
    alone,
    openMpi, // mpirun of Open MPI
    pmi,     // mpiexec of MPICH and its kin, or srun --mpi=pmi2
    pmix,    // srun --mpi=pmix
    tasks,   // srun without MPI
    torchrun // RANK and WORLD_SIZE, and nothing of the above
  };
  Kind kind = Kind::alone;
  int rank = 0, size = 1;
  int sizeHere = 1; // how many of them run on this machine, as far as is told

  static Launch fromEnvironment();
};

/// The communicator of a process that was started so: MPI's library is loaded only for more than one rank. SCRIMP_MPI
/// names another library than those that belong to what started the process.
Result<std::unique_ptr<Communicator>> openCommunicator(const Launch &launch);

} // namespace scrimp::runtime

#endif
