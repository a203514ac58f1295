// Values of the interpreter: dense, row-major, floats as doubles and integers as int64.
#ifndef SCRIMP_EVAL_HOSTTENSOR_H
#define SCRIMP_EVAL_HOSTTENSOR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <vector>

namespace mlir::scrimp {

class HostTensor {
public:
  HostTensor() = default;
  /// A tensor of zeros.
  explicit HostTensor(RankedTensorType type);
  /// The value of a constant. Null attributes and resource blobs are not constants: asserts.
  static HostTensor get(ElementsAttr attr);
  static HostTensor splat(RankedTensorType type, double value);

  RankedTensorType getType() const { return type; }
  llvm::ArrayRef<int64_t> getShape() const { return type.getShape(); }
  int64_t size() const { return numElements; }
  bool isFloat() const { return isa<FloatType>(type.getElementType()); }

  /// The elements; only the one that fits the element type may be used.
  llvm::MutableArrayRef<double> floats() { return floatData; }
  llvm::ArrayRef<double> floats() const { return floatData; }
  llvm::MutableArrayRef<int64_t> ints() { return intData; }
  llvm::ArrayRef<int64_t> ints() const { return intData; }

  /// Element `i` as a double, whatever the type.
  double asDouble(int64_t i) const { return isFloat() ? floatData[i] : static_cast<double>(intData[i]); }

  /// Rounds every element to the element type: floats to nearest even, integers by wrapping, i1 to 0 or 1.
  void roundToType();

  /// The same elements under another type of the same size and kind.
  HostTensor withType(RankedTensorType newType) const;

  DenseElementsAttr toAttr() const;

private:
  RankedTensorType type;
  int64_t numElements = 0;
  std::vector<double> floatData;
  std::vector<int64_t> intData;
};

/// Rounds `value` to `type` (f16, bf16, f32 or f64), to nearest even.
double roundToFloatType(double value, FloatType type);

/// Row-major strides of a shape.
llvm::SmallVector<int64_t> rowMajorStrides(llvm::ArrayRef<int64_t> shape);

/// Calls `fn(index, linear)` for every index of `shape` in row-major order.
void forEachIndex(llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t> index, int64_t linear)> fn);

} // namespace mlir::scrimp

#endif
