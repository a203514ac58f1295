// Checkpoints: DIR/step-000123/{model.safetensors, optimizer.safetensors, state.json} and DIR/latest.
//
// A checkpoint is written to DIR/.tmp-step-000123, synced, and renamed: it is there whole or not at all. Weights are
// streamed from the arena. model.safetensors holds parameters (frozen ones too), buffers and what is carried under
// every name they have; optimizer.safetensors the optimizer's state; state.json the position of the run, the flags that
// it was started with, and size and hash of the other files. A resumed run continues bit for bit.
#ifndef SCRIMP_RUNTIME_CHECKPOINT_H
#define SCRIMP_RUNTIME_CHECKPOINT_H

#include "scrimp/runtime/Carried.h"
#include "scrimp/runtime/LossScaler.h"
#include <map>

namespace scrimp::runtime {

/// Where a run is, and what it was started with.
struct RunState {
  int64_t step = 0;     // steps done, skipped ones included
  int64_t updates = 0;  // updates applied
  int64_t position = 0; // samples consumed: epoch and place in it follow
  uint64_t seed = 0;
  int64_t samples = 0; // of the training data
  int64_t total = 0;   // steps in all, over which the schedule runs; 0: a checkpoint that does not say
  bool shuffle = true;
  Schedule schedule;
  LossScale lossScale;
  Hyperparameters values;
  bool hasValue[std::size(hyperparameterTable)] = {}; // which of `values` a checkpoint gave
};

/// A checkpoint on disk whose state.json has been read and checked.
struct CheckpointOnDisk {
  struct FileInfo {
    uint64_t bytes = 0;
    std::string hash;
  };
  std::string folder, optimizer;
  RunState state;
  std::map<std::string, FileInfo> files;
};

/// Creates `folder` if need be, checks that it can be written, holds it against other runs until `lock` is closed or
/// the process ends, and removes what an interrupted save left behind.
Status prepareCheckpointFolder(const std::string &folder, File &lock);

/// Saves; afterwards at most `keep` checkpoints remain (0: all), the new one always among them. On failure nothing of
/// the new one stays behind.
Status saveCheckpoint(const program::Program *program, const char *arena, const CarriedTensors &carried,
                      const RunState &state, const std::string &folder, int64_t keep);

/// Opens `path`: a checkpoint, or a folder of checkpoints (then its latest).
Result<CheckpointOnDisk> openCheckpoint(const std::string &path);

/// Checks every file's size and hash and every tensor's name, type and shape, and only then reads into the arena. What
/// is carried is taken from the checkpoint where it has it.
Status loadCheckpoint(const program::Program *program, const CheckpointOnDisk &checkpoint, char *arena,
                      CarriedTensors &carried);

} // namespace scrimp::runtime

#endif
