#include "UpdateRule.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace {

/// torch.optim.SGD. PyTorch starts the momentum buffer as the gradient itself, undampened; here it starts as 0 and the
/// runtime gives one_minus_dampening = 1 at the first update, which is the same to the bit.
class Sgd : public UpdateRule {
public:
  Sgd(bool momentum, bool nesterov) : momentum(momentum), nesterov(nesterov) {}

  ArrayRef<StringRef> getStateNames() const override {
    static const StringRef names[] = {"momentum_buffer"};
    return momentum ? ArrayRef<StringRef>(names) : ArrayRef<StringRef>();
  }

  GraphExpr build(GraphExpr p, GraphExpr g, MutableArrayRef<GraphExpr> states, bool decay,
                  ScalarFn scalar) const override {
    GraphExpr step = decay ? g + p * scalar("weight_decay") : g;
    if (momentum) {
      GraphExpr &buffer = states[0];
      buffer.value = (buffer * scalar("momentum") + step * scalar("one_minus_dampening")).value;
      step.value = (nesterov ? step + buffer * scalar("momentum") : buffer).value;
    }
    return p - step * scalar("lr");
  }

private:
  bool momentum, nesterov;
};

/// torch.optim.Adam (arXiv:1412.6980; weight decay added to the gradient) and AdamW (arXiv:1711.05101; parameters
/// shrunk first).
class Adam : public UpdateRule {
public:
  explicit Adam(bool decoupled) : decoupled(decoupled) {}

  ArrayRef<StringRef> getStateNames() const override {
    static const StringRef names[] = {"exp_avg", "exp_avg_sq"};
    return names;
  }

  GraphExpr build(GraphExpr p, GraphExpr g, MutableArrayRef<GraphExpr> states, bool decay,
                  ScalarFn scalar) const override {
    GraphExpr shrunk = decay && decoupled ? p * scalar("decay_factor") : p;
    GraphExpr gradient = decay && !decoupled ? g + p * scalar("weight_decay") : g;
    GraphExpr &m = states[0], &v = states[1];
    // lerp, mul and addcmul, sqrt / add, addcdiv: each with torch's association.
    m.value = (m + scalar("one_minus_beta1") * (gradient - m)).value;
    v.value = (v * scalar("beta2") + (scalar("one_minus_beta2") * gradient) * gradient).value;
    GraphExpr denominator = sqrt(v) / scalar("sqrt_bias_correction2") + scalar("eps");
    return shrunk - (scalar("step_size") * m) / denominator;
  }

private:
  bool decoupled;
};

} // namespace

std::unique_ptr<UpdateRule> mlir::scrimp::createUpdateRule(StringRef kind, bool momentum, bool nesterov) {
  if (kind == "sgd")
    return std::make_unique<Sgd>(momentum, nesterov);
  if (kind == "adam" || kind == "adamw")
    return std::make_unique<Adam>(/*decoupled=*/kind == "adamw");
  return nullptr;
}
