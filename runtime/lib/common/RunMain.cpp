// runMain: the one place where errors become text on stderr and an exit status.
#include "Trainer.h"
#include "scrimp/runtime/Hash.h"
#include "scrimp/runtime/Launch.h"
#include <csignal>
#include <cstdio>
#include <exception>

namespace scrimp::runtime {

/// All ranks run the same program.
static Status checkProgram(const program::Program *program, const ProgramImage &image, Ranks &ranks) {
  Hash64 hash;
  hash.update(image.program, image.programBytes);
  std::vector<Fact> facts = {
      {"the number of ranks that their executables were compiled for", program->world()},
      {"the programs of their executables (hash)", static_cast<int64_t>(hash.digest()), Fact::Kind::hash}};
  return ranks.requireEqual(facts, "start all ranks from one executable");
}

/// There are as many as it was compiled for.
static Status checkWorld(const program::Program *program, Ranks &ranks, const std::string &name) {
  int world = static_cast<int>(program->world());
  if (world == ranks.size())
    return Status::ok();
  std::string compiled = world == 1 ? "one process" : format("%d ranks", world);
  std::string found = ranks.size() == 1 ? "this one was started alone" : format("%d were started", ranks.size());
  std::string start = world == 1 ? "start one" : format("start it with mpirun -n %d ./%s", world, name.c_str());
  return ranks.agree(Status::error("this program was compiled for %s, but %s; %s, or recompile with --world %d",
                                   compiled.c_str(), found.c_str(), start.c_str(), ranks.size()));
}

static Status verifyProducts(const program::Program *program, const Options &options, bool isFirst) {
  ThreadPool pool(options.threads);
  Result<std::unique_ptr<Device>> device = openDevice(program, pool, options.device);
  if (device.failed())
    return device.status();
  std::string summary;
  Status status = (*device)->checkLibrary(program);
  if (!status.failed())
    status = (*device)->verifyLibrary(program, summary);
  if (!status.failed() && isFirst)
    printf("%s\n", summary.c_str());
  return status;
}

static Status runProgram(int argc, char **argv, const ProgramImage &image, const std::string &name,
                         const program::Program *program, Communicator &communicator, Ranks &ranks) {
  if (Status status = checkProgram(program, image, ranks); status.failed())
    return status;
  std::string help;
  Result<Options> options = parseOptions(argc, argv, program, help);
  if (Status status = ranks.agree(options.failed() ? options.status() : Status::ok()); status.failed())
    return status;
  if (Result<int64_t> helps = ranks.largest(!help.empty()); helps.failed() || *helps) {
    if (ranks.isFirst())
      printf("%s", help.c_str());
    return helps.failed() ? helps.status() : Status::ok();
  }
  if (Status status = checkWorld(program, ranks, name); status.failed())
    return status;
  if (Status status = ranks.agree(checkProcessor(program)); status.failed())
    return status;
  if (options->verify)
    return ranks.agree(verifyProducts(program, *options, ranks.isFirst()));
  Trainer trainer(image, program, std::move(*options), name, communicator, ranks);
  Status status = trainer.prepare();
  if (!status.failed()) {
    status = trainer.run();
    // A rank that failed alone cannot ask the others.
    if (!status.failed() || ranks.size() == 1 || ranks.failedTogether())
      if (Status written = trainer.writeTrace(); !status.failed())
        status = written;
  }
  if (status.failed())
    trainer.removeLeftovers();
  return status;
}

static void printError(const std::string &name, const std::string &text) {
  fflush(stdout);
  fprintf(stderr, "%s: error: %s\n", name.c_str(), text.c_str());
}

/// As one of the ranks. What fails on all is told by the first; what only this one knows ends the others too.
static int runRank(int argc, char **argv, const ProgramImage &image, const std::string &name,
                   const program::Program *program, Communicator &communicator) {
  Ranks ranks(communicator);
  Status status;
  // Libraries that we use may throw (out of memory, JSON of an unexpected shape); we do not.
  try {
    status = runProgram(argc, argv, image, name, program, communicator, ranks);
  } catch (const std::exception &error) {
    status = Status::error("%s", error.what());
    ranks.failAlone();
  }
  bool isTogether = ranks.size() == 1 || ranks.failedTogether();
  if (status.failed() && !isTogether) {
    std::string text = format("rank %d: %s", ranks.rank(), status.message().c_str());
    printError(name, text);
    communicator.abort(text);
    return 1;
  }
  if (status.failed() && ranks.isFirst())
    printError(name, status.message());
  communicator.finish();
  return status.failed();
}

int runMain(int argc, char **argv, const ProgramImage &image) {
  std::string name = argc > 0 && argv[0] ? argv[0] : "train";
  if (size_t slash = name.rfind('/'); slash != std::string::npos)
    name.erase(0, slash + 1);
  // A write beyond the limit on file sizes fails with a message, as one to a full disk does, instead of killing us.
  signal(SIGXFSZ, SIG_IGN);
  Launch launch = image.communicator ? Launch() : Launch::fromEnvironment();
  Status status;
  try {
    Result<const program::Program *> program = verifyProgram(image);
    if (program.failed()) {
      status = program.status();
    } else if (image.communicator) {
      return runRank(argc, argv, image, name, *program, *image.communicator);
    } else {
      Result<std::unique_ptr<Communicator>> communicator = openCommunicator(launch);
      if (!communicator.failed())
        return runRank(argc, argv, image, name, *program, **communicator);
      status = communicator.status();
    }
  } catch (const std::exception &error) {
    status = Status::error("%s", error.what());
  }
  // All ranks fail alike here.
  if (launch.rank == 0)
    printError(name, status.message());
  return 1;
}

} // namespace scrimp::runtime
