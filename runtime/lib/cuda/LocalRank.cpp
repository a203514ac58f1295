#include "LocalRank.h"
#include <cstdlib>
#include <initializer_list>

namespace scrimp::runtime::cuda {

int localRank() {
  for (const char *variable : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (const char *text = getenv(variable); text && *text)
      return atoi(text);
  return 0;
}

} // namespace scrimp::runtime::cuda
