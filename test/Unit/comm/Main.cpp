// Alone, runs the tests of communicators within a process. Started by mpirun, the one test of MPI's, on all ranks.
#include "scrimp/runtime/Launch.h"
#include <gtest/gtest.h>

using namespace scrimp::runtime;

Communicator *launched = nullptr;

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  Launch launch = Launch::fromEnvironment();
  testing::GTEST_FLAG(filter) = launch.kind == Launch::Kind::alone ? "-Mpi.*" : "Mpi.*";
  Result<std::unique_ptr<Communicator>> communicator = openCommunicator(launch);
  if (communicator.failed()) {
    fprintf(stderr, "%s\n", communicator.status().message().c_str());
    return 1;
  }
  launched = communicator->get();
  int status = RUN_ALL_TESTS();
  launched->finish();
  return status;
}
