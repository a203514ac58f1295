// MPI's interface as its two families of libraries implement it, bound when the program runs. No header of either is
// needed and one executable serves both: MPICH's ABI (MPICH, Intel MPI, Cray MPICH, MVAPICH; https://www.mpich.org/abi)
// and Open MPI's (versions 2 to 5).
#ifndef SCRIMP_RUNTIME_LIB_COMM_MPI_H
#define SCRIMP_RUNTIME_LIB_COMM_MPI_H

#include "Transport.h"

namespace scrimp::runtime {

struct MpichAbi {
  using Handle = int;
  struct Status {
    int count[2], source, tag, error;
  };
  static constexpr int longestError = 512;
};

struct OpenMpiAbi {
  using Handle = void *;
  struct Status {
    int source, tag, error, cancelled;
    size_t count;
  };
  static constexpr int longestError = 256;
};

/// The functions that the runtime calls, and the handles that it hands them.
template <typename Abi> struct Mpi {
  using Handle = typename Abi::Handle;
  using Status = typename Abi::Status;

  int (*initThread)(int *argc, char ***argv, int required, int *provided);
  int (*setErrorHandler)(Handle communicator, Handle handler);
  int (*rank)(Handle communicator, int *rank);
  int (*size)(Handle communicator, int *size);
  int (*send)(const void *data, int count, Handle type, int to, int tag, Handle communicator, Handle *request);
  int (*receive)(void *data, int count, Handle type, int from, int tag, Handle communicator, Handle *request);
  int (*testAll)(int count, Handle *requests, int *isDone, Status *statuses);
  int (*test)(Handle *request, int *isDone, Status *status);
  int (*count)(const Status *status, Handle type, int *count);
  int (*errorText)(int code, char *text, int *length);
  int (*abort)(Handle communicator, int code);
  int (*finalize)();

  Handle world, byte, returnErrors;
  static constexpr int funneled = 1; // MPI_THREAD_FUNNELED in both
};

/// MPI over the library `library` (of dlopen), whose name is for messages; started, with `ranks` ranks.
Result<std::unique_ptr<Transport>> startMpi(void *library, const std::string &name, int ranks);

} // namespace scrimp::runtime

#endif
