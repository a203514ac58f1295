// Ranks on CPUs are started by mpirun.
#include "../comm/Sockets.h"

namespace scrimp::runtime {

Result<std::unique_ptr<Transport>> startTorchrun(const Launch &launch) {
  return Status::error("RANK and WORLD_SIZE are set, as torchrun does, but ranks on CPUs talk by MPI; start them with "
                       "mpirun -n %d, or srun, instead",
                       launch.size);
}

} // namespace scrimp::runtime
