// Every op in bf16 and in f16: the ops of all gradient cases and of their gradients, with the types that their
// PrecisionRule allows, compile, and as compiled code give what the interpreter gives, to a rounding of the type.
#include "CheckGradients.h"

#include "scrimp/Codegen/Verify.h"
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Eval/Interpreter.h"
#include "scrimp/Transforms/GraphFunction.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringSet.h"

#include <numeric>

using namespace mlir;
using namespace mlir::scrimp;

/// Ops that no gradient case has.
static const char *const kMoreCases[] = {
    R"(func.func @main(%x: tensor<2x4x4x4xf64>) -> tensor<2x4x4x4xf64> {
      %0 = scrimp.im2col %x kernel [2, 3] strides [1, 2] pads [0, 1, 0, 0] dilations [1, 1] groups 2
        : tensor<2x4x4x4xf64> -> tensor<2x12x12xf64>
      %1 = scrimp.col2im %0 kernel [2, 3] strides [1, 2] pads [0, 1, 0, 0] dilations [1, 1] groups 2
        : tensor<2x12x12xf64> -> tensor<2x4x4x4xf64>
      return %1 : tensor<2x4x4x4xf64> })",
    R"(func.func @main(%x: tensor<4x3xf64>, %seed: tensor<i64>) -> tensor<4x3xf64> {
      %0 = scrimp.iota {dim = 1 : i64, start = 0.5, step = 0.25} : tensor<4x3xf64>
      %1 = scrimp.constant dense<3.0> : tensor<4x3xf64>
      %2 = scrimp.compare lt, %x, %1 : tensor<4x3xf64> -> tensor<4x3xi1>
      %3 = scrimp.arg_max %x {dim = 1 : i64} : tensor<4x3xf64> -> tensor<4xi64>
      %4 = scrimp.random_uniform %seed, %seed, %seed {key = 1 : i64, batch_dim = 0 : i64, samples = 4 : i64, low = 0.0,
        high = 1.0} : tensor<4x3xf64>
      %flat = scrimp.reshape %x : tensor<4x3xf64> -> tensor<12xf64>
      %5 = scrimp.sum_squares %flat : tensor<12xf64> -> tensor<1xf64>
      return %x : tensor<4x3xf64> })"};

/// Collects ops, each with the values of its operands rounded to the type `low`, as one function: one compilation serves
/// all.
class LowOps {
public:
  LowOps(MLIRContext &context, Type low) : low(low), module(ModuleOp::create(UnknownLoc::get(&context))) {
    OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
    main = func::FuncOp::create(builder, module->getLoc(), "main", builder.getFunctionType({}, {}));
    main.addEntryBlock();
  }

  /// The ops of a case's @main, and those of its gradient.
  void addCase(StringRef text) {
    OwningOpRef<ModuleOp> source = parseSourceString<ModuleOp>(text, low.getContext());
    ASSERT_TRUE(source) << text.str();
    auto function = source->lookupSymbol<func::FuncOp>("main");
    addFunction(function);
    Builder builder(low.getContext());
    unsigned trainable = 0;
    for (BlockArgument argument : function.getArguments())
      if (isFloatTensor(argument) && !function.getArgAttr(argument.getArgNumber(), "test.fixed")) {
        function.setArgAttr(argument.getArgNumber(), ScrimpDialect::kName,
                            builder.getStringAttr("p" + Twine(trainable++)));
        function.setArgAttr(argument.getArgNumber(), ScrimpDialect::kParam, builder.getStringAttr("trainable"));
      }
    Operation *terminator = function.getBody().front().getTerminator();
    OpBuilder body(terminator);
    Value loss;
    for (Value y : terminator->getOperands())
      if (isFloatTensor(y) && !loss) {
        SmallVector<int64_t> dims(tensorType(y).getRank());
        std::iota(dims.begin(), dims.end(), 0);
        loss = ReduceOp::create(body, y.getLoc(), ReduceKind::sum, MulOp::create(body, y.getLoc(), y, y), dims);
      }
    if (!loss || !trainable)
      return;
    eraseResults(function, llvm::BitVector(function.getNumResults(), true));
    appendResult(function, loss, ScrimpDialect::kOutput, builder.getStringAttr("loss"));
    PassManager passes(low.getContext());
    passes.addPass(createAutodiff());
    ScopedDiagnosticHandler quiet(low.getContext(), [](Diagnostic &) { return success(); });
    if (succeeded(passes.run(*source)))
      addFunction(source->lookupSymbol<func::FuncOp>("train"));
  }

  /// Compiles and compares.
  void run() {
    OpBuilder end = builderAtEnd();
    Operation *terminator = func::ReturnOp::create(end, module->getLoc(), results);
    main.setType(Builder(low.getContext())
                     .getFunctionType(main.getBody().front().getArgumentTypes(), terminator->getOperandTypes()));
    ASSERT_TRUE(succeeded(mlir::verify(*module)));
    PassManager passes(low.getContext());
    passes.addPass(createFormKernels({/*fuse=*/false}));
    ASSERT_TRUE(succeeded(passes.run(*module)));
    FailureOr<OwningOpRef<ModuleOp>> kernels = emitKernels(*module);
    ASSERT_TRUE(succeeded(kernels));
    VerifyOptions options;
    options.ulps = 1;
    SmallVector<HostTensor> values;
    EXPECT_TRUE(succeeded(verifyKernels(*module, main, **kernels, arguments, options, values)));
  }

  llvm::StringSet<> seen;

private:
  OpBuilder builderAtEnd() { return OpBuilder::atBlockEnd(&main.getBody().front()); }

  void addFunction(func::FuncOp function) {
    llvm::DenseMap<Value, HostTensor> values;
    SmallVector<HostTensor> inputs, outputs;
    uint64_t state = 7;
    for (BlockArgument argument : function.getArguments()) {
      HostTensor &value = inputs.emplace_back(tensorType(argument));
      double from = value.isFloat() ? -2 : 0, to = value.isFloat() ? 2 : 3;
      if (auto range = function.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(), "test.range")) {
        from = cast<FloatAttr>(range[0]).getValueAsDouble();
        to = cast<FloatAttr>(range[1]).getValueAsDouble();
      }
      auto draw = [&] {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return from + (to - from) * static_cast<double>(state >> 11) * 0x1p-53;
      };
      if (value.isFloat())
        for (double &element : value.floats())
          element = draw();
      else
        for (int64_t &element : value.ints())
          element = static_cast<int64_t>(draw());
      values[argument] = value;
    }
    ASSERT_TRUE(succeeded(evalFunction(function, inputs, outputs, Rounding::Exact,
                                       [&](Value value, const HostTensor &tensor) { values[value] = tensor; })));
    for (Operation &op : function.getBody().front().without_terminator())
      if (auto precision = dyn_cast<PrecisionOp>(op))
        addOp(&op, precision.getPrecisionRule(), values);
  }

  Type typeFor(Type type, ElementKind kind) {
    auto tensor = cast<RankedTensorType>(type);
    if (!isa<FloatType>(tensor.getElementType()))
      return type;
    return tensor.clone(kind == ElementKind::Wide ? Type(Float32Type::get(type.getContext())) : low);
  }

  void addOp(Operation *op, const PrecisionRule &rule, const llvm::DenseMap<Value, HostTensor> &values) {
    auto kernel = dyn_cast<KernelOp>(op);
    StringRef name = op->getName().getStringRef();
    // Library calls are compared in test/Unit/runtime; views have no code. Two of a kind do.
    if (!kernel || kernel.getKernelFamily() == KernelFamily::Library ||
        kernel.getKernelFamily() == KernelFamily::View || counts[name]++ >= 2)
      return;
    OpBuilder builder = builderAtEnd();
    SmallVector<Value> operands;
    for (auto [operand, kind] : llvm::zip(op->getOperands(), rule.operands)) {
      auto type = cast<RankedTensorType>(typeFor(operand.getType(), kind));
      operands.push_back(main.getBody().front().addArgument(type, op->getLoc()));
      HostTensor value = values.lookup(operand).withType(type);
      value.roundToType();
      arguments.push_back(value);
    }
    OperationState state(op->getLoc(), op->getName());
    state.addOperands(operands);
    state.addAttributes(op->getAttrs());
    for (auto [result, kind] : llvm::zip(op->getResults(), rule.results))
      state.addTypes(typeFor(result.getType(), kind));
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto type = cast<RankedTensorType>(state.types[0]);
      HostTensor value = HostTensor::get(constant.getValue()).withType(type);
      value.roundToType();
      state.attributes.set("value", value.toAttr());
    }
    if (isa<SumSquaresOp>(op))
      state.types[0] = op->getResult(0).getType(); // always f64
    Operation *lowered = builder.create(state);
    EXPECT_TRUE(succeeded(mlir::verify(lowered))) << name.str();
    llvm::append_range(results, lowered->getResults());
    seen.insert(name);
  }

  Type low;
  OwningOpRef<ModuleOp> module;
  func::FuncOp main;
  SmallVector<HostTensor> arguments;
  SmallVector<Value> results;
  llvm::StringMap<int> counts;
};

static void checkAll(bool isHalf) {
  DialectRegistry registry;
  registry.insert<ScrimpDialect, func::FuncDialect>();
  registerCodegenDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  context.allowUnregisteredDialects(); // test.range, test.fixed
  LowOps ops(context, isHalf ? Type(Float16Type::get(&context)) : BFloat16Type::get(&context));
  for (const std::string &text : gradientCaseTexts())
    ops.addCase(text);
  for (const char *text : kMoreCases)
    ops.addCase(text);
  ops.run();
  for (RegisteredOperationName op : context.getRegisteredOperations()) {
    StringRef name = op.getStringRef();
    // These take integers, or what they take is rounded by them.
    bool isOther =
        name == "scrimp.and" || name == "scrimp.or" || name == "scrimp.xor" || name == "scrimp.stochastic_round";
    // Those that a library computes, and views, are interfaces' to tell: they have no units and no elements.
    if (!op.hasInterface<PrecisionOp>() || isOther || ops.seen.contains(name) || name == "scrimp.reshape" ||
        name == "scrimp.matmul" || name == "scrimp.linear" || name.starts_with("scrimp.conv2d") || name.starts_with("scrimp.attention"))
      continue;
    ADD_FAILURE() << name.str() << " is in no gradient case: add it to kMoreCases";
  }
}

TEST(Precision, EveryOpComputesInBf16) { checkAll(/*isHalf=*/false); }
TEST(Precision, EveryOpComputesInF16) { checkAll(/*isHalf=*/true); }
