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
inline constexpr int wholeFormat = 1, sharedFormat = 2; // without and with tensors that are shared out

struct NamedTensor {
  std::string name;
  const program::Tensor *tensor;
};

/// The files of parameters or of states, in the order of the ranks that wrote them: "model.safetensors" where all is
/// whole, else "model-00001-of-00004.safetensors" to "model-00004-of-00004.safetensors".
inline std::vector<std::string> storedFiles(bool optimizerState, int parts) {
  std::string whole = optimizerState ? optimizerFile : modelFile;
  if (parts == 1)
    return {whole};
  std::vector<std::string> files;
  for (int part = 1; part <= parts; ++part)
    files.push_back(whole.substr(0, whole.find('.')) + format("-%05d-of-%05d.safetensors", part, parts));
  return files;
}

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

/// In how many files they are: one of each rank where any is shared out.
inline int partsOf(const program::Program *program, const std::vector<NamedTensor> &stored) {
  bool isShared = std::any_of(stored.begin(), stored.end(),
                              [](const NamedTensor &named) { return named.tensor->part_elements() > 0; });
  return isShared ? static_cast<int>(program->world()) : 1;
}

} // namespace scrimp::runtime

#endif
