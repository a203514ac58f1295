#include "scrimp/Eval/HostTensor.h"

#include "scrimp/Dialect/AliasTypes.h"

#include "llvm/ADT/APFloat.h"

using namespace mlir;
using namespace mlir::scrimp;

HostTensor::HostTensor(RankedTensorType type) : type(type), numElements(type.getNumElements()) {
  if (isFloat())
    floatData.resize(numElements);
  else
    intData.resize(numElements);
}

HostTensor HostTensor::get(ElementsAttr attr) {
  HostTensor result(cast<RankedTensorType>(attr.getType()));
  auto dense = cast<DenseElementsAttr>(attr);
  Type element = result.type.getElementType();
  if (element.isF64()) {
    llvm::copy(dense.getValues<double>(), result.floatData.begin());
  } else if (element.isF32()) {
    llvm::copy(dense.getValues<float>(), result.floatData.begin());
  } else if (result.isFloat()) {
    int64_t i = 0;
    for (APFloat value : dense.getValues<APFloat>()) {
      bool lost;
      value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
      result.floatData[i++] = value.convertToDouble();
    }
  } else if (element.isInteger(1)) {
    llvm::copy(dense.getValues<bool>(), result.intData.begin());
  } else if (element.isInteger(64)) {
    llvm::copy(dense.getValues<int64_t>(), result.intData.begin());
  } else {
    int64_t i = 0;
    for (APInt value : dense.getValues<APInt>())
      result.intData[i++] = value.getSExtValue();
  }
  return result;
}

HostTensor HostTensor::splat(RankedTensorType type, double value) {
  HostTensor result(type);
  if (result.isFloat())
    std::fill(result.floatData.begin(), result.floatData.end(), value);
  else
    std::fill(result.intData.begin(), result.intData.end(), static_cast<int64_t>(value));
  return result;
}

double mlir::scrimp::roundToFloatType(double value, FloatType type) {
  if (type.isF64())
    return value;
  if (type.isF32())
    return static_cast<float>(value);
  APFloat rounded(value);
  bool lost;
  rounded.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
  rounded.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  return rounded.convertToDouble();
}

void HostTensor::roundToType() {
  if (auto floatType = dyn_cast<FloatType>(type.getElementType())) {
    if (!floatType.isF64())
      for (double &value : floatData)
        value = roundToFloatType(value, floatType);
    return;
  }
  unsigned width = type.getElementTypeBitWidth();
  if (width == 64)
    return;
  for (int64_t &value : intData)
    value = width == 1 ? (value & 1) : APInt(64, value, true, true).trunc(width).getSExtValue();
}

HostTensor HostTensor::withType(RankedTensorType newType) const {
  HostTensor result = *this;
  assert(newType.getNumElements() == numElements && isa<FloatType>(newType.getElementType()) == isFloat());
  result.type = newType;
  return result;
}

DenseElementsAttr HostTensor::toAttr() const {
  Type element = type.getElementType();
  if (element.isF64())
    return DenseElementsAttr::get(type, ArrayRef<double>(floatData));
  if (element.isInteger(64))
    return DenseElementsAttr::get(type, ArrayRef<int64_t>(intData));
  if (element.isF32())
    return DenseElementsAttr::get(type, ArrayRef<float>(SmallVector<float>(floatData.begin(), floatData.end())));
  if (element.isInteger(1))
    return DenseElementsAttr::get(type, ArrayRef<bool>(SmallVector<bool>(intData.begin(), intData.end())));
  if (auto floatType = dyn_cast<FloatType>(element)) {
    SmallVector<APFloat> values;
    for (double value : floatData) {
      APFloat converted(value);
      bool lost;
      converted.convert(floatType.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
      values.push_back(converted);
    }
    return DenseElementsAttr::get(type, values);
  }
  unsigned width = type.getElementTypeBitWidth();
  SmallVector<APInt> values;
  for (int64_t value : intData)
    values.push_back(APInt(64, value, true, true).trunc(width));
  return DenseElementsAttr::get(type, values);
}

SmallVector<int64_t> mlir::scrimp::rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t i = static_cast<int64_t>(shape.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

void mlir::scrimp::forEachIndex(ArrayRef<int64_t> shape, function_ref<void(ArrayRef<int64_t>, int64_t)> fn) {
  int64_t size = productOf(shape);
  SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t linear = 0; linear < size; ++linear) {
    fn(index, linear);
    for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
}
