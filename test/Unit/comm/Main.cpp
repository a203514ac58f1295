// Alone, runs the tests of communicators within a process. Started by mpirun, or with torchrun's variables, the one test of
// what connects processes, on all ranks.
#include "../../../runtime/lib/comm/Sockets.h"
#include "scrimp/runtime/Launch.h"
#include <gtest/gtest.h>

using namespace scrimp::runtime;

Communicator *launched = nullptr;

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  Launch launch = Launch::fromEnvironment();
  testing::GTEST_FLAG(filter) = launch.kind == Launch::Kind::alone ? "-Processes.*" : "Processes.*";
  // Programs for CPUs refuse these variables.
  auto open = [&]() -> Result<std::unique_ptr<Communicator>> {
    if (launch.kind != Launch::Kind::torchrun)
      return openCommunicator(launch);
    Result<std::unique_ptr<Transport>> sockets = connectSockets(launch);
    if (sockets.failed())
      return sockets.status();
    return makeMessageCommunicator(std::move(*sockets));
  };
  Result<std::unique_ptr<Communicator>> communicator = open();
  if (communicator.failed()) {
    fprintf(stderr, "%s\n", communicator.status().message().c_str());
    return 1;
  }
  launched = communicator->get();
  int status = RUN_ALL_TESTS();
  launched->finish();
  return status;
}
