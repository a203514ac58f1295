// The update rules of torch.optim as graph expressions: what one parameter and its states become, given its gradient.
#ifndef SCRIMP_LIB_TRANSFORMS_UPDATERULE_H
#define SCRIMP_LIB_TRANSFORMS_UPDATERULE_H

#include "scrimp/Dialect/GraphExpr.h"

#include <memory>

namespace mlir::scrimp {

/// A rule acts element by element; its expressions are single ops in PyTorch's order (single-tensor implementation, not
/// capturable), so that with equal scalars the bits are PyTorch's up to its own contractions.
class UpdateRule {
public:
  /// A hyperparameter (runtime/include/scrimp/runtime/Scalars.h) in the shape and type of the update.
  using ScalarFn = llvm::function_ref<GraphExpr(StringRef name)>;

  virtual ~UpdateRule() = default;

  /// What is kept for each element across steps, initially 0: "exp_avg".
  virtual ArrayRef<StringRef> getStateNames() const = 0;

  /// The new parameter; replaces `states` by their new values. `decay`: whether weight decay applies.
  virtual GraphExpr build(GraphExpr parameter, GraphExpr gradient, MutableArrayRef<GraphExpr> states, bool decay,
                          ScalarFn scalar) const = 0;
};

/// "sgd", "adam" or "adamw"; null for another name. `momentum` and `nesterov` are SGD's.
std::unique_ptr<UpdateRule> createUpdateRule(StringRef kind, bool momentum, bool nesterov);

} // namespace mlir::scrimp

#endif
