// The test program as an executable, for mpirun. Beside the flags of every executable it takes from the environment
// what a rank shall do at the beginning of a step: SCRIMP_TEST_AT=rank:step:(kill|term|hang|leave), and with
// SCRIMP_TEST_THREADS=N it runs N ranks as threads. SCRIMP_TEST_MODEL is the model's name.
#include "TestProgram.h"
#include "scrimp/runtime/Launch.h"
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <unistd.h>

using namespace scrimp::runtime;

static int rankToTrouble = -1, stepToTrouble = 0;
static char trouble[16] = "";

int main(int argc, char **argv) {
  Launch launch = Launch::fromEnvironment();
  const char *world = getenv("SCRIMP_TEST_WORLD");
  TestProgram test(world ? atoi(world) : launch.size);
  std::filesystem::remove(test.folder); // which is for tests in this process; a rank that is killed would leave it
  if (const char *model = getenv("SCRIMP_TEST_MODEL"))
    test.table.model = model;
  if (const char *when = getenv("SCRIMP_TEST_AT"))
    sscanf(when, "%d:%d:%15s", &rankToTrouble, &stepToTrouble, trouble);
  if (rankToTrouble == launch.rank)
    test.hooks.begin = [](void *, int64_t step) {
      if (step != stepToTrouble)
        return;
      switch (trouble[0]) {
      case 'k':
        raise(SIGKILL);
        break;
      case 't':
        raise(SIGTERM);
        break;
      case 'h':
        for (;;)
          pause();
      default:
        _exit(3);
      }
    };
  if (const char *threads = getenv("SCRIMP_TEST_THREADS")) {
    TestProgram ranks(atoi(threads));
    std::string arguments;
    for (int i = 1; i < argc; ++i)
      arguments += std::string(argv[i]) + " ";
    std::vector<int> statuses = ranks.runRanks(arguments);
    printf("%s", ranks.out.c_str());
    fprintf(stderr, "%s", ranks.err.c_str());
    return *std::max_element(statuses.begin(), statuses.end());
  }
  return runMain(argc, argv, test.image());
}
