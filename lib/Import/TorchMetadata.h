// What torch's dynamo exporter says of a program beside its graph: the signature of torch.export, the traced calls, and
// what its optimiser folded. Other tools may have changed the file since, so every reader says what it did not
// understand.
#ifndef SCRIMP_LIB_IMPORT_TORCHMETADATA_H
#define SCRIMP_LIB_IMPORT_TORCHMETADATA_H

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::scrimp::onnx_import {

/// The inputs of an exported program: what is a parameter, what a buffer.
class Signature {
public:
  struct Entry {
    enum Kind { Parameter, Buffer, Constant, Other } kind = Other; // Constant: a tensor made in forward
    std::string argument;                                          // in traced calls: p_head_weight
    std::string target;                                            // in the state_dict: head.weight; "" if it has none
    bool persistent = true;
  };

  /// Reads `str(ExportedProgram.graph_signature)`: below "# inputs", a line "ARGUMENT: KIND[ target='T'][
  /// persistent=B]" each. nullopt with the line in `problem` if that is not what `text` is.
  static std::optional<Signature> parse(llvm::StringRef text, std::string &problem);

  const std::vector<Entry> &inputs() const { return entries; }
  /// Null if there is none.
  const Entry *byArgument(llvm::StringRef name) const { return find(arguments, name); }
  const Entry *byTarget(llvm::StringRef name) const { return find(targets, name); }
  bool isParameter(llvm::StringRef target) const {
    const Entry *entry = byTarget(target);
    return entry && entry->kind == Entry::Parameter;
  }

private:
  const Entry *find(const llvm::StringMap<size_t> &map, llvm::StringRef name) const {
    auto it = map.find(name);
    return it == map.end() ? nullptr : &entries[it->second];
  }

  std::vector<Entry> entries;
  llvm::StringMap<size_t> arguments, targets; // into `entries`
};

/// A call of the traced program, as torch prints it:
/// "%addmm : [num_users=1] = call_function[target=torch.ops.aten.addmm.default](args = (%b, %x, %w), kwargs = {})".
struct TracedCall {
  std::string name;                   // addmm
  std::string op;                     // addmm (without namespace and overload)
  std::vector<std::string> arguments; // by position: the value's name, or "" for a number, a list, None
  std::vector<std::string> values;    // every value in it, also in lists and keywords, in order
};
std::optional<TracedCall> parseTracedCall(llvm::StringRef text);

/// A list of strings as Python prints it: ['', 'h.0', 'ln'].
std::vector<std::string> parsePythonList(llvm::StringRef text);

} // namespace mlir::scrimp::onnx_import

#endif
