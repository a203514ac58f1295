// From the environment to a communicator.
#include "scrimp/runtime/Launch.h"
#include "Mpi.h"
#include "Sockets.h"
#include <cstdlib>
#include <dlfcn.h>
#include <optional>

namespace scrimp::runtime {

static std::optional<int> readNumber(const char *variable) {
  const char *text = getenv(variable);
  char *end = nullptr;
  long value = text ? strtol(text, &end, 10) : -1;
  if (!text || end == text || value < 0 || value > 1 << 24)
    return std::nullopt;
  return static_cast<int>(value);
}

Launch Launch::fromEnvironment() {
  struct Source {
    Kind kind;
    const char *rank, *size, *sizeHere;
  };
  // The first that is there: mpirun inside a batch job says more than the job does. SLURM sets what it calls a step's
  // for what srun starts, not for the batch script.
  constexpr Source sources[] = {
      {Kind::openMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
      {Kind::pmi, "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
      {Kind::pmix, "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"},
      {Kind::tasks, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"},
      {Kind::torchrun, "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"}};
  for (const Source &source : sources) {
    std::optional<int> rank = readNumber(source.rank), size = readNumber(source.size);
    if (!rank || !size || *size < 2)
      continue;
    return {source.kind, *rank, *size, std::max(readNumber(source.sizeHere).value_or(1), 1)};
  }
  return {};
}

Result<std::unique_ptr<Communicator>> openCommunicator(const Launch &launch) {
  if (launch.kind == Launch::Kind::alone)
    return makeSelfCommunicator();
  if (launch.kind == Launch::Kind::torchrun) {
    Result<std::unique_ptr<Transport>> transport = startTorchrun(launch);
    if (transport.failed())
      return transport.status();
    return makeMessageCommunicator(std::move(*transport));
  }
  const std::vector<std::string> mpich = {"libmpich.so.12", "libmpi.so.12", "libmpi_cray.so.12"};
  std::vector<std::string> names = {"libmpi.so.40"}; // Open MPI
  // SLURM's interfaces serve both families.
  if (launch.kind != Launch::Kind::openMpi)
    names.insert(launch.kind == Launch::Kind::pmix ? names.end() : names.begin(), mpich.begin(), mpich.end());
  if (const char *given = getenv("SCRIMP_MPI"); given && *given)
    names = {given};
  std::string why;
  for (const std::string &name : names) {
    // Its plugins look for its symbols among all that are loaded.
    void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
      if (why.empty())
        why = dlerror();
      continue;
    }
    Result<std::unique_ptr<Transport>> transport = startMpi(library, name, launch.size);
    if (transport.failed())
      return transport.status();
    return makeMessageCommunicator(std::move(*transport));
  }
  return Status::error("%d processes were started together, but their MPI library cannot be loaded: %s; install it "
                       "(%s), or name it in SCRIMP_MPI=/path/to/libmpi.so",
                       launch.size, why.c_str(),
                       launch.kind == Launch::Kind::openMpi ? "Debian's libopenmpi3" : "Debian's libmpich12");
}

} // namespace scrimp::runtime
