// What scrimp-checkpoint does. Tensors are read in pieces; nothing holds one whole.
#ifndef SCRIMP_TOOLS_CHECKPOINT_COMMANDS_H
#define SCRIMP_TOOLS_CHECKPOINT_COMMANDS_H

#include "scrimp/runtime/Checkpoint.h"

namespace scrimp::runtime {

/// What a path names: a checkpoint, a folder of checkpoints (then its latest), or a .safetensors file.
struct TensorSource {
  std::optional<CheckpointOnDisk> checkpoint;
  TensorSet model;
  std::optional<TensorSet> states; // of a checkpoint

  static Result<TensorSource> open(const std::string &path);
  /// Size and hash of every file of a checkpoint; of a file its header was checked when it was opened.
  Status check() const { return checkpoint ? checkpoint->checkFiles() : Status::ok(); }
};

/// Writes parameters and buffers, or with `ofStates` the optimizer's states, to one .safetensors file, which is there
/// whole or not at all.
Status exportTensors(const std::string &path, const std::string &output, bool ofStates);

/// Appends a line for the run, if it is a checkpoint, and one for each tensor.
Status inspect(const std::string &path, std::string &text);

/// Appends a line for each tensor that differs, or is in one of the two only. Whether all are the same to the bit; of a
/// tensor that has another type in each, to the value. States are compared where both have some.
Result<bool> diff(const std::string &a, const std::string &b, std::string &text);

} // namespace scrimp::runtime

#endif
