// scrimp-checkpoint: what compiled programs save, in the form of one process or of many ranks, as one file for PyTorch,
// as a list, or beside another. Exit status: 0; 1 where a comparison finds a difference; 2 after an error.
#include "Commands.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

using namespace scrimp::runtime;

static int fail(const std::string &message) {
  fprintf(stderr, "scrimp-checkpoint: error: %s\n", message.c_str());
  return 2;
}

static int run(int argc, char **argv) {
  CLI::App app(
      "Exports, lists and compares checkpoints of compiled programs. A checkpoint is a folder step-000123, or the "
      "folder that holds it (then its latest).");
  app.require_subcommand(1);
  std::string path, other, output, text;
  bool ofStates = false;
  CLI::App *exports =
      app.add_subcommand("export", "Writes a checkpoint's parameters and buffers to one .safetensors file "
                                   "that load_state_dict takes");
  exports->add_option("CHECKPOINT", path)->required();
  exports->add_option("-o,--output", output, "The file")->required();
  exports->add_flag("--optimizer", ofStates, "The optimizer's states instead");
  CLI::App *inspects = app.add_subcommand("inspect", "Lists the tensors of a checkpoint or a .safetensors file");
  inspects->add_option("PATH", path)->required();
  CLI::App *diffs = app.add_subcommand("diff", "Compares two checkpoints or .safetensors files, to the bit");
  diffs->add_option("A", path)->required();
  diffs->add_option("B", other)->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return error.get_exit_code() ? fail(std::string(error.what()) + "; see --help") : app.exit(error);
  }
  if (exports->parsed()) {
    Status status = exportTensors(path, output, ofStates);
    return status.failed() ? fail(status.message()) : 0;
  }
  if (inspects->parsed()) {
    Status status = inspect(path, text);
    printf("%s", text.c_str());
    return status.failed() ? fail(status.message()) : 0;
  }
  Result<bool> areSame = diff(path, other, text);
  if (areSame.failed())
    return fail(areSame.status().message());
  printf("%s", text.c_str());
  return !*areSame;
}

int main(int argc, char **argv) {
  // Libraries that we use may throw.
  try {
    return run(argc, argv);
  } catch (const std::exception &error) {
    return fail(error.what());
  }
}
