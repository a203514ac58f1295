// What a function keeps in memory, and from which op to which: the input of the memory plan, the measure of a schedule,
// and what reports are made of.
#ifndef SCRIMP_ANALYSIS_MEMORYUSE_H
#define SCRIMP_ANALYSIS_MEMORYUSE_H

#include "scrimp/Analysis/Aliases.h"
#include "scrimp/Planner/Problem.h"

#include <optional>

namespace mlir::scrimp {

/// Parts of the arena, as program.fbs names them; in the order in which they lie there. What lives across steps comes
/// first; the last three are one region that all of a step's values share.
enum class Segment { Parameters, OptimizerState, Inputs, Gradients, Activations, Workspace };
constexpr unsigned kNumSegments = 6;
StringRef stringifySegment(Segment segment);
inline bool isTransient(Segment segment) { return segment >= Segment::Gradients; }

/// What a block is for. Each has its segment; what is read into it from outside is told from what the host computes,
/// what is learned from what the model keeps beside it, and sums over the iterations of a loop from what is made in
/// one.
enum class Role {
  Parameter,
  FrozenParameter,
  Buffer,
  Constant,
  OptimizerState,
  Input,
  Scalar,
  Output,
  Gradient,
  GradientSum,
  Activation,
  Sum,
  Workspace
};
StringRef stringifyRole(Role role);
Segment segmentOf(Role role);

/// A storage that keeps its bytes from step to step: an argument, a constant, or a value that the host reads.
struct PersistentBlock {
  Value root;
  int64_t bytes;
  Role role;
  std::string key; // blocks of the same key in different functions are one
};

/// A storage for as long as it is in a block: live from op `first` to op `last`, both included.
struct Tenant {
  Value root;
  int first, last;
  Role role;
};

/// A block of the transient region. Several tenants follow one another where a result overwrites an operand that dies;
/// a workspace has none.
struct TransientBlock {
  int64_t bytes;
  int first, last;
  SmallVector<Tenant, 1> tenants;
  Operation *workspaceOf = nullptr;
  unsigned workspaceIndex = 0;

  /// The tenant at that op (the newer one where a result takes over); null for a workspace and outside of the range.
  const Tenant *getTenantAt(int t) const;
  /// What holds the block at that op, if anything does.
  std::optional<Role> getRoleAt(int t) const;
};

struct MemoryUse {
  /// By position; the function's terminator is the last. The ops of a body follow the op that it belongs to, its
  /// terminator is where the op ends.
  std::vector<Operation *> ops;
  std::vector<PersistentBlock> persistent;
  std::vector<TransientBlock> transient;

  /// The transient blocks as a placement problem, in the same order.
  planner::Problem getProblem(int64_t alignment) const;
};

/// Live ranges under the order of the function's block and of the bodies in it, after the in-place reuse that the alias
/// model allows. What comes from outside of a body and is read in it lives until the body's end, for the iterations to
/// come; what is made in the body lives there. What an op has started (AsyncOp) holds its operands and results until
/// the op that ends it.
///
/// Roles come from the attributes of arguments and results: scrimp.param, scrimp.state (with scrimp.bucket the
/// optimizer's, else a buffer of the model), scrimp.input, scrimp.scalar, scrimp.output, scrimp.gradient. A transient
/// value is a gradient too if what it is one of is computed from it element by element: the new value of a trainable
/// parameter or of its optimizer state, or another gradient of which it is the only such source; or if ranks add it up
/// to one. Pieces of inputs that the host fills are inputs. Without `tellRoles` gradients are activations too.
MemoryUse computeMemoryUse(func::FuncOp function, const Aliases &aliases, bool tellRoles = true);

} // namespace mlir::scrimp

#endif
