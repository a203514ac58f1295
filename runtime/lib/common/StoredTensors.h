// Which tensors of a program go into which file of a checkpoint, and under which names. Shared by saving and loading.
#ifndef SCRIMP_RUNTIME_LIB_COMMON_STOREDTENSORS_H
#define SCRIMP_RUNTIME_LIB_COMMON_STOREDTENSORS_H

#include "scrimp/runtime/Program.h"
#include <algorithm>
#include <vector>

namespace scrimp::runtime {

inline constexpr const char *modelFile = "model.safetensors";
inline constexpr const char *optimizerFile = "optimizer.safetensors";
inline constexpr const char *stateFile = "state.json";
inline constexpr int checkpointFormat = 1;

struct NamedTensor {
  std::string name;
  const program::Tensor *tensor;
};

/// The tensors of one file under all their names, wide elements first so that all are aligned, then by name.
inline std::vector<NamedTensor> storedTensors(const program::Program *program, bool optimizerState) {
  std::vector<NamedTensor> stored;
  for (const program::Tensor *tensor : items(program->tensors())) {
    bool isState = tensor->role() == program::TensorRole::optimizer_state;
    if (tensor->role() == program::TensorRole::constant || isState != optimizerState)
      continue;
    stored.push_back({tensor->name()->str(), tensor});
    for (const flatbuffers::String *alias : items(tensor->aliases()))
      stored.push_back({alias->str(), tensor});
  }
  std::sort(stored.begin(), stored.end(), [](const NamedTensor &a, const NamedTensor &b) {
    int64_t bytesA = elementBytes(a.tensor->dtype()), bytesB = elementBytes(b.tensor->dtype());
    return bytesA != bytesB ? bytesA > bytesB : a.name < b.name;
  });
  return stored;
}

} // namespace scrimp::runtime

#endif
