// Compiled kernels beside the interpreter: launches in every way the runtime may choose, and comparisons that know how
// much rounding can do. Operands of each op are what compiled code gave, so that errors do not add up.
#include "scrimp/Codegen/Verify.h"

#include "scrimp/Analysis/Aliases.h"
#include "scrimp/Analysis/Collectives.h"
#include "scrimp/Codegen/LoadedKernels.h"
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Eval/Ranks.h"
#include "scrimp/runtime/Emulated.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"

#include <cstring>
#include <random>

using namespace mlir;
using namespace mlir::scrimp;
namespace rt = ::scrimp::runtime;

std::vector<char> mlir::scrimp::encodeTensor(const HostTensor &value) {
  Type type = value.getType().getElementType();
  size_t width = elementBytesOf(type);
  std::vector<char> bytes(value.size() * width);
  for (int64_t i = 0; i < value.size(); ++i) {
    uint64_t bits;
    if (auto floatType = dyn_cast<FloatType>(type)) {
      APFloat number(value.floats()[i]);
      bool lost;
      number.convert(floatType.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
      bits = number.bitcastToAPInt().getZExtValue();
    } else {
      bits = value.ints()[i];
    }
    std::memcpy(bytes.data() + i * width, &bits, width); // little endian, as the targets are
  }
  return bytes;
}

HostTensor mlir::scrimp::decodeTensor(RankedTensorType type, ArrayRef<char> bytes) {
  HostTensor value(type);
  Type elementType = type.getElementType();
  size_t width = elementBytesOf(elementType);
  for (int64_t i = 0; i < value.size(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * width, width);
    if (auto floatType = dyn_cast<FloatType>(elementType)) {
      APFloat number(floatType.getFloatSemantics(), APInt(floatType.getWidth(), bits));
      bool lost;
      number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
      value.floats()[i] = number.convertToDouble();
    } else {
      value.ints()[i] = elementType.isInteger(1) ? bits & 1 : llvm::SignExtend64(bits, 8 * width);
    }
  }
  return value;
}

namespace {
using Bytes = std::vector<char>;

class Verifier {
public:
  Verifier(const VerifyOptions &options, LoadedKernels kernels) : options(options), kernels(std::move(kernels)) {}

  LogicalResult runBlock(Block &block, MutableArrayRef<HostTensor> results);
  llvm::DenseMap<Value, HostTensor> values;

private:
  LogicalResult runKernel(KernelRegionOp kernel, ArrayRef<const HostTensor *> operands,
                          MutableArrayRef<HostTensor> results);
  std::vector<Bytes> launch(KernelRegionOp kernel, ArrayRef<Bytes> inputs, bool inPieces,
                            std::optional<std::pair<unsigned, unsigned>> overwritten = std::nullopt);
  LogicalResult compare(KernelRegionOp kernel, unsigned result, ArrayRef<const HostTensor *> operands,
                        const HostTensor &actual, const HostTensor &expected);
  double measureCondition(KernelRegionOp kernel, unsigned result, ArrayRef<const HostTensor *> operands,
                          const HostTensor &expected);
  LogicalResult compareBits(KernelRegionOp kernel, ArrayRef<Bytes> actual, ArrayRef<Bytes> expected,
                            const llvm::Twine &when);

  const VerifyOptions &options;
  LoadedKernels kernels;
  bool hasFailed = false; // a launch, after an error
};
} // namespace

/// The results of one launch. With `overwritten` = (operand, result), that result starts as the operand's bytes and is
/// both buffers at once. In pieces: ranges of uneven lengths, last first.
std::vector<Bytes> Verifier::launch(KernelRegionOp kernel, ArrayRef<Bytes> inputs, bool inPieces,
                                    std::optional<std::pair<unsigned, unsigned>> overwritten) {
  std::vector<Bytes> operands(inputs), outputs, workspaces;
  for (Value result : kernel.getResults())
    outputs.emplace_back(bytesOf(result), char(0xA5));
  for (RankedTensorType type : getWorkspaceTypes(kernel))
    workspaces.emplace_back(bytesOf(type), char(0xA5));
  std::vector<char *> buffers;
  for (Bytes &operand : operands)
    buffers.push_back(operand.data());
  auto overwrite = [&](unsigned operand, unsigned result) {
    outputs[result] = operands[operand];
    buffers[operand] = outputs[result].data();
  };
  if (overwritten)
    overwrite(overwritten->first, overwritten->second);
  for (OpResult result : kernel->getResults())
    if (std::optional<Tie> tie = kernel.getTie(result.getResultNumber()))
      overwrite(tie->operand, result.getResultNumber());
  for (std::vector<Bytes> *group : {&outputs, &workspaces})
    for (Bytes &buffer : *group)
      buffers.push_back(buffer.data());
  int64_t units = kernel->getAttrOfType<IntegerAttr>(ScrimpDialect::kUnits).getInt();
  KernelFunction function = kernels.lookup(kernel->getAttrOfType<StringAttr>(ScrimpDialect::kSymbol).getValue());
  if (auto shape = kernel->getAttrOfType<DenseI64ArrayAttr>(ScrimpDialect::kLaunch)) {
    std::vector<uint64_t> bytes;
    for (const std::vector<Bytes> *group : {&operands, &outputs, &workspaces})
      for (const Bytes &buffer : *group)
        bytes.push_back(buffer.size());
    buffers.insert(buffers.end(), 2, nullptr); // the launch depends on nothing
    bytes.insert(bytes.end(), 2, 0);
    auto grid = static_cast<uint32_t>(shape[0]), block = static_cast<uint32_t>(shape[1]);
    rt::EmulatedLaunch launch{function, buffers, bytes, units, grid, block};
    // The last block first, and the others by another one's hand.
    std::string problem = inPieces ? rt::runEmulatedBlocks(launch, grid - 1, grid) : "";
    if (problem.empty())
      problem = rt::runEmulatedBlocks(launch, 0, grid - inPieces);
    if (!problem.empty()) {
      kernel.emitError() << "the kernel's " << problem;
      hasFailed = true;
    }
    return outputs;
  }
  if (!inPieces) {
    if (units > 0)
      function(buffers.data(), 0, units);
    return outputs;
  }
  SmallVector<std::pair<int64_t, int64_t>> ranges;
  for (int64_t begin = 0, length = 1; begin < units; length = length * 3 % 101 + 1) {
    int64_t end = std::min(units, begin + std::max(length, units / 100));
    ranges.push_back({begin, end});
    begin = end;
  }
  for (auto [begin, end] : llvm::reverse(ranges))
    function(buffers.data(), begin, end);
  return outputs;
}

/// The unit roundoff, twice. f64 counts for less: its reference is itself rounded.
static double roundingError(Type type) {
  return std::ldexp(1.0, type.isF64() ? -46 : type.isF32() ? -23 : type.isF16() ? -10 : -7);
}

/// The coarsest rounding in the kernel: a cast to f64 of an f32 value is no better than f32.
static double roundingError(KernelRegionOp kernel) {
  double coarsest = roundingError(Float64Type::get(kernel.getContext()));
  for (Operation &op : kernel.getBody().front())
    for (Value value : op.getResults())
      if (isFloatTensor(value))
        coarsest = std::max(coarsest, roundingError(tensorType(value).getElementType()));
  return coarsest;
}

static double largestMagnitude(const HostTensor &value) {
  double largest = 0;
  for (double element : value.floats())
    if (std::isfinite(element))
      largest = std::max(largest, std::fabs(element));
  return largest;
}

/// How far result `result` moves when every float operand is rounded otherwise: what no code can be blamed for.
double Verifier::measureCondition(KernelRegionOp kernel, unsigned result, ArrayRef<const HostTensor *> operands,
                                  const HostTensor &expected) {
  std::vector<HostTensor> moved;
  for (const HostTensor *operand : operands) {
    moved.push_back(*operand);
    double error = roundingError(operand->getType().getElementType());
    for (auto [i, element] : llvm::enumerate(moved.back().floats()))
      element *= 1 + ((i * 2654435761u >> 16) & 1 ? error : -error);
    moved.back().roundToType();
  }
  SmallVector<const HostTensor *> pointers;
  for (const HostTensor &operand : moved)
    pointers.push_back(&operand);
  SmallVector<HostTensor> outputs;
  for (Value value : kernel.getResults())
    outputs.emplace_back(tensorType(value));
  if (failed(cast<EvalOp>(kernel.getOperation()).eval(pointers, outputs)))
    return 0;
  double largest = 0;
  for (auto [a, b] : llvm::zip(outputs[result].floats(), expected.floats()))
    if (std::isfinite(a) && std::isfinite(b))
      largest = std::max(largest, std::fabs(a - b));
  return largest;
}

LogicalResult Verifier::compare(KernelRegionOp kernel, unsigned result, ArrayRef<const HostTensor *> operands,
                                const HostTensor &actual, const HostTensor &expected) {
  double error = options.ulps * roundingError(kernel), largest = largestMagnitude(expected);
  std::optional<double> condition; // costs an evaluation: asked for once something looks wrong
  for (int64_t i = 0; i < expected.size(); ++i) {
    double a = actual.asDouble(i), e = expected.asDouble(i);
    bool same;
    if (!expected.isFloat()) {
      same = actual.ints()[i] == expected.ints()[i];
    } else if (!std::isfinite(a) || !std::isfinite(e)) {
      same = a == e || (std::isnan(a) && std::isnan(e));
    } else {
      same = std::fabs(a - e) <= error * (std::fabs(e) + largest) + 1e-300;
      if (!same && !condition)
        condition = measureCondition(kernel, result, operands, expected);
      same = same || std::fabs(a - e) <= options.ulps * *condition;
    }
    if (same)
      continue;
    Operation *op = kernel.getBody().front().getTerminator()->getOperand(result).getDefiningOp();
    auto diag = kernel.emitError() << "kernel " << kernel->getAttr(ScrimpDialect::kSymbol)
                                   << " differs from the interpreter: '" << op->getName() << "' element " << i << " of "
                                   << expected.getType() << " is " << llvm::formatv("{0:e9}", a).str() << ", expected "
                                   << llvm::formatv("{0:e9}", e).str();
    diag.attachNote(op->getLoc()) << "computed here";
    return failure();
  }
  return success();
}

LogicalResult Verifier::compareBits(KernelRegionOp kernel, ArrayRef<Bytes> actual, ArrayRef<Bytes> expected,
                                    const llvm::Twine &when) {
  for (auto [r, pair] : llvm::enumerate(llvm::zip(actual, expected)))
    if (std::get<0>(pair) != std::get<1>(pair))
      return kernel.emitError() << "kernel " << kernel->getAttr(ScrimpDialect::kSymbol)
                                << " gives other bits for result " << r << " " << when.str();
  return success();
}

LogicalResult Verifier::runKernel(KernelRegionOp kernel, ArrayRef<const HostTensor *> operands,
                                  MutableArrayRef<HostTensor> results) {
  std::vector<Bytes> inputs;
  for (const HostTensor *operand : operands)
    inputs.push_back(encodeTensor(*operand));
  std::vector<Bytes> outputs = launch(kernel, inputs, /*inPieces=*/false);
  if (hasFailed)
    return failure();
  SmallVector<HostTensor> expected(results.begin(), results.end());
  if (failed(cast<EvalOp>(kernel.getOperation()).eval(operands, expected)))
    return failure();
  for (unsigned r = 0; r < results.size(); ++r) {
    results[r] = decodeTensor(tensorType(kernel.getResult(r)), outputs[r]);
    expected[r].roundToType();
    if (failed(compare(kernel, r, operands, results[r], expected[r])))
      return failure();
  }
  if (failed(compareBits(kernel, launch(kernel, inputs, /*inPieces=*/true), outputs, "when it runs in other ranges")))
    return failure();
  for (unsigned operand = 0; operand < inputs.size(); ++operand)
    for (unsigned result = 0; result < outputs.size(); ++result) {
      if (inputs[operand].size() != outputs[result].size() || !mayOverwrite(kernel, operand, result))
        continue;
      for (bool inPieces : {false, true})
        if (failed(compareBits(kernel, launch(kernel, inputs, inPieces, std::pair(operand, result)), outputs,
                               "in the bytes of operand " + llvm::Twine(operand))))
          return failure();
    }
  return failure(hasFailed);
}

LogicalResult Verifier::runBlock(Block &block, MutableArrayRef<HostTensor> results) {
  llvm::DenseMap<Value, int64_t> usesLeft;
  for (Operation &op : block)
    for (Value operand : op.getOperands())
      ++usesLeft[operand];
  for (Operation &op : block.without_terminator()) {
    SmallVector<const HostTensor *> operands;
    for (Value operand : op.getOperands())
      operands.push_back(&values[operand]);
    SmallVector<HostTensor> outputs;
    for (Type type : op.getResultTypes())
      outputs.emplace_back(cast<RankedTensorType>(type));
    if (auto kernel = dyn_cast<KernelRegionOp>(op)) {
      if (failed(runKernel(kernel, operands, outputs)))
        return failure();
    } else if (auto body = dyn_cast<BodyOp>(op)) {
      auto runBody = [&](Block &inner, ArrayRef<const HostTensor *> arguments, MutableArrayRef<HostTensor> yielded) {
        llvm::DenseMap<Value, HostTensor> around; // the operands stay where they are
        std::swap(around, values);
        for (auto [argument, value] : llvm::zip_equal(inner.getArguments(), arguments))
          values[argument] = *value;
        LogicalResult result = runBlock(inner, yielded);
        std::swap(around, values);
        return result;
      };
      if (failed(body.evalWith(operands, outputs, runBody)))
        return failure();
    } else {
      auto eval = dyn_cast<EvalOp>(op);
      if (!eval)
        return op.emitOpError() << "cannot be interpreted";
      if (failed(eval.eval(operands, outputs)))
        return failure();
      for (HostTensor &output : outputs)
        output.roundToType();
    }
    for (Value operand : op.getOperands())
      if (--usesLeft[operand] == 0)
        values.erase(operand);
    for (auto [result, output] : llvm::zip(op.getResults(), outputs))
      if (usesLeft.lookup(result) > 0)
        values[result] = std::move(output);
  }
  for (auto [result, operand] : llvm::zip(results, block.getTerminator()->getOperands()))
    result = values[operand];
  return success();
}

LogicalResult mlir::scrimp::verifyKernels(ModuleOp module, func::FuncOp function, ModuleOp kernels,
                                          ArrayRef<HostTensor> arguments, const VerifyOptions &options,
                                          SmallVectorImpl<HostTensor> &results) {
  FailureOr<LoadedKernels> loaded = LoadedKernels::load(kernels, options.cpu);
  if (failed(loaded))
    return failure();
  EqualRanks ranks(getNumRanks(module));
  Verifier verifier(options, std::move(*loaded));
  for (auto [argument, value] : llvm::zip_equal(function.getArguments(), arguments)) {
    verifier.values[argument] = value;
    verifier.values[argument].roundToType();
  }
  results.assign(function.getNumResults(), HostTensor());
  return verifier.runBlock(function.getBody().front(), results);
}

//===-- Arguments ------------------------------------------------------------------------------------------------===//

static double usualValue(StringRef scalar) {
  return llvm::StringSwitch<double>(scalar)
      .Cases({"lr", "step_size"}, 1e-3)
      .Cases({"beta1", "momentum"}, 0.9)
      .Case("beta2", 0.999)
      .Case("one_minus_beta1", 0.1)
      .Case("one_minus_beta2", 1e-3)
      .Case("eps", 1e-8)
      .Case("weight_decay", 0.01)
      .Case("decay_factor", 0.99999)
      .Case("sqrt_bias_correction2", 0.0316227766)
      .Case("loss_scale", 1024)
      .Case("unscale", 1.0 / 1024)
      .Default(1);
}

SmallVector<HostTensor> mlir::scrimp::makeRandomArguments(func::FuncOp function, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  SmallVector<HostTensor> values;
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    HostTensor value(tensorType(argument));
    auto scalar = function.getArgAttrOfType<StringAttr>(index, ScrimpDialect::kScalar);
    auto valid = function.getArgAttrOfType<DenseI64ArrayAttr>(index, ScrimpDialect::kValid);
    auto ignore = function.getArgAttrOfType<IntegerAttr>(index, ScrimpDialect::kIgnore);
    bool isInput = function.getArgAttr(index, ScrimpDialect::kInput) != nullptr;
    bool isState = function.getArgAttr(index, ScrimpDialect::kState) != nullptr;
    for (double &element : value.floats())
      element = scalar    ? usualValue(scalar.getValue())
                : isState ? uniform(random)
                          : normal(random) * (isInput ? 1 : 0.1);
    int64_t begin = valid ? valid[0] : 0, end = valid ? valid[1] : 2;
    for (int64_t &element : value.ints()) {
      if (scalar)
        element = 1;
      else if (ignore && uniform(random) < 0.1)
        element = ignore.getInt();
      else
        element = begin + static_cast<int64_t>(random() % std::max<int64_t>(end - begin, 1));
    }
    value.roundToType();
    values.push_back(std::move(value));
  }
  return values;
}
