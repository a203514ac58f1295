// The tensors of a program that no graph reads (program.fbs, Carried): which file holds each one's bytes. Checkpoints
// copy them from there, so that they never take memory.
#ifndef SCRIMP_RUNTIME_CARRIED_H
#define SCRIMP_RUNTIME_CARRIED_H

#include "scrimp/runtime/Program.h"
#include "scrimp/runtime/TensorFile.h"
#include <memory>

namespace scrimp::runtime {

class CarriedTensors {
public:
  struct Place {
    std::shared_ptr<const File> file; // held open, so that the bytes outlive its name
    StoredTensor tensor;
  };

  /// At first all lie in the trailer of the executable at `weightsPath`.
  static Result<CarriedTensors> inTrailer(const program::Program *program, const char *weightsPath);

  /// From now on the bytes of those that `found`, the tensors of `file`, holds under one of their names lie there; the
  /// others stay where they are. Fails if a shape is another than the program's.
  Status take(const std::shared_ptr<const File> &file, const std::map<std::string, StoredTensor> &found);

  bool has(const std::string &name) const { return places.count(name); }
  /// By every name.
  const std::map<std::string, Place> &byName() const { return places; }

private:
  std::map<std::string, Place> places;
  std::vector<std::vector<std::string>> names; // of each tensor
};

} // namespace scrimp::runtime

#endif
