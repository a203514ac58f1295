// Checkpoints: DIR/step-000123/{model.safetensors, optimizer.safetensors, state.json} and DIR/latest.
//
// A checkpoint is written to DIR/.tmp-step-000123, synced, and renamed: it is there whole or not at all. Weights are
// streamed from the arena. model.safetensors holds parameters (frozen ones too), buffers and what is carried under
// every name they have; optimizer.safetensors the optimizer's state; state.json the position of the run, the flags that
// it was started with, and size and hash of the other files. A resumed run continues bit for bit.
//
// Where ranks share tensors out, each writes a file of its own, model-00002-of-00004.safetensors say, at the same time
// as the others: what it holds of a tensor is there under the tensor's name as [elements]. What all ranks have whole is
// in the first file. The index is state.json, which the first rank writes last: shapes and types of the tensors that
// are shared out, and which elements are in which file (Sharing). Any number of ranks reads what any other has written.
#ifndef SCRIMP_RUNTIME_CHECKPOINT_H
#define SCRIMP_RUNTIME_CHECKPOINT_H

#include "scrimp/runtime/Carried.h"
#include "scrimp/runtime/Device.h"
#include "scrimp/runtime/LossScaler.h"
#include "scrimp/runtime/TensorSet.h"
#include <map>

namespace scrimp::runtime {

class Ranks;

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
  /// Of parameters and of states.
  struct Tensors {
    std::vector<std::string> files; // in the order of the ranks that wrote them
    std::map<std::string, TensorSet::Entry> shared;
  } model, states;

  /// Opens the tensors.
  Result<TensorSet> open(bool optimizerState) const;
  /// Checks size and hash of every file, or of those of parameters alone; of several readers the one with the number
  /// `reader` checks its share of them.
  Status checkFiles(int reader = 0, int readers = 1, bool withStates = true) const;
};

/// Creates `folder` if need be, checks that it can be written, holds it against other runs until `lock` is closed or
/// the process ends, and removes what an interrupted save left behind.
Status prepareCheckpointFolder(const std::string &folder, File &lock);

/// Saves, together with all ranks; afterwards at most `keep` checkpoints remain (0: all), the new one always among
/// them. On failure nothing of the new one stays behind, unless a rank has died. All ranks return alike.
Status saveCheckpoint(const program::Program *program, ArenaRef arena, const CarriedTensors &carried,
                      const RunState &state, const std::string &folder, int64_t keep, Ranks &ranks);

/// Opens `path`: a checkpoint, or a folder of checkpoints (then its latest).
Result<CheckpointOnDisk> openCheckpoint(const std::string &path);

/// Checks its share of the files and every tensor's name, type and shape, and only then reads what `rank` holds into
/// the arena. What is carried is taken from the checkpoint where it has it. All files are whole where all ranks
/// succeed.
Status loadCheckpoint(const program::Program *program, const CheckpointOnDisk &checkpoint, int rank, ArenaRef arena,
                      CarriedTensors &carried);

} // namespace scrimp::runtime

#endif
