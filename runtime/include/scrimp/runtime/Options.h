// The command line of an executable.
#ifndef SCRIMP_RUNTIME_OPTIONS_H
#define SCRIMP_RUNTIME_OPTIONS_H

#include "scrimp/runtime/Data.h"
#include "scrimp/runtime/Scalars.h"
#include "scrimp/runtime/StateDict.h"
#include <optional>

namespace scrimp::runtime {

struct Options {
  std::vector<DataSpec> data, evalData;
  int tokenBytes = 0; // 0: not given
  std::optional<int64_t> steps, epochs;
  Hyperparameters values;
  bool given[std::size(hyperparameterTable)] = {}; // which of `values` the user set
  bool isGiven(double Hyperparameters::*value) const {
    for (size_t i = 0; i < std::size(hyperparameterTable); ++i)
      if (hyperparameterTable[i].value == value)
        return given[i];
    return false;
  }
  Schedule schedule;
  bool scheduleGiven = false, warmupGiven = false, lrMinGiven = false;
  uint64_t seed = 0;
  bool seedGiven = false;
  int threads = 1;
  bool shuffle = true;
  int64_t evalEvery = 0, saveEvery = 0, keep = 0;
  std::string saveFolder, resume, initFrom, metrics;
  PrefixRename initRename; // of names in initFrom
  bool skipNan = false;
  bool verify = false;
  bool profile = false;
  std::string trace;
  std::optional<std::pair<int64_t, int64_t>> traceSteps; // first and last
  double commTimeout = 600;
  DeviceOptions device;
};

/// Parses and checks what can be checked without files. `helpText` is set instead where --help was asked for.
Result<Options> parseOptions(int argc, const char *const *argv, const program::Program *program, std::string &helpText);

} // namespace scrimp::runtime

#endif
