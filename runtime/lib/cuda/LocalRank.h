// Which of the devices that a process may use is its own.
#ifndef SCRIMP_RUNTIME_LIB_CUDA_LOCALRANK_H
#define SCRIMP_RUNTIME_LIB_CUDA_LOCALRANK_H

namespace scrimp::runtime::cuda {

/// The number of this rank among those on this machine, as what started it tells (torchrun, Open MPI, MPICH, SLURM); 0
/// for one that was started alone.
int localRank();

} // namespace scrimp::runtime::cuda

#endif
