// runMain: the one place where errors become text on stderr and an exit status.
#include "Trainer.h"
#include "scrimp/runtime/BlasCheck.h"
#include <csignal>
#include <cstdio>
#include <exception>

namespace scrimp::runtime {

static Status runProgram(int argc, char **argv, const ProgramImage &image, const std::string &name) {
  Result<const program::Program *> program = verifyProgram(image);
  if (program.failed())
    return program.status();
  std::string help;
  Result<Options> options = parseOptions(argc, argv, *program, help);
  if (options.failed())
    return options.status();
  if (!help.empty()) {
    printf("%s", help.c_str());
    return Status::ok();
  }
  if (Status status = checkProcessor(*program); status.failed())
    return status;
  if (options->verify) {
    initializeLibrary();
    if (Status status = checkBlas(*program); status.failed())
      return status;
    ThreadPool pool(options->threads);
    Arena arena;
    if (Status status = arena.allocate((*program)->arena_bytes(), (*program)->alignment()); status.failed())
      return status;
    std::string summary;
    Status status = verifyLibraryCalls(*program, arena.base(), pool, summary);
    if (!status.failed())
      printf("%s\n", summary.c_str());
    return status;
  }
  Trainer trainer(image, *program, std::move(*options), name);
  Status status = trainer.prepare();
  if (!status.failed())
    status = trainer.run();
  if (status.failed())
    trainer.removeEmptyFolder();
  return status;
}

int runMain(int argc, char **argv, const ProgramImage &image) {
  std::string name = argc > 0 && argv[0] ? argv[0] : "train";
  if (size_t slash = name.rfind('/'); slash != std::string::npos)
    name.erase(0, slash + 1);
  Status status;
  // A write beyond the limit on file sizes fails with a message, as one to a full disk does, instead of killing us.
  signal(SIGXFSZ, SIG_IGN);
  // Libraries that we use may throw (out of memory, JSON of an unexpected shape); we do not.
  try {
    status = runProgram(argc, argv, image, name);
  } catch (const std::exception &error) {
    status = Status::error("%s", error.what());
  }
  if (!status.failed())
    return 0;
  fflush(stdout);
  fprintf(stderr, "%s: error: %s\n", name.c_str(), status.message().c_str());
  return 1;
}

} // namespace scrimp::runtime
