//===- ScrimpBase.td - the dialect, its types and base classes ----------------------------------------------------===//
#ifndef SCRIMP_BASE_TD
#define SCRIMP_BASE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "scrimp/Dialect/ScrimpInterfaces.td"

def Scrimp_Dialect : Dialect {
  let name = "scrimp";
  let cppNamespace = "::mlir::scrimp";
  let summary = "Neural network graphs that are trained, from import to the memory plan";
  let description = [{
    Ops on builtin ranked tensors of static shape. Nothing broadcasts implicitly: `scrimp.broadcast` says so. An op
    describes itself through interfaces (ScrimpInterfaces.td); passes name no ops.

    Function arguments carry their role in attributes: `scrimp.name` (the model's name), and one of `scrimp.input` (the
    batch dimension, or -1), `scrimp.param` ("trainable" or "frozen"), `scrimp.state` (kept across steps, updated by
    the graph), `scrimp.scalar` (a value that the runtime computes before each step: "lr", "step", ...). Beside it,
    `scrimp.aliases` (further names), `scrimp.init` ({kind, a, b}: its first value), `scrimp.reason` (why it has the
    role), `scrimp.bucket` (what lies in it), of an input `scrimp.valid` ([begin, end) of what its elements may be) and
    `scrimp.ignore` (one more that they may be). Results: `scrimp.output` (a value that the host reads: "loss",
    "grad_norm"), `scrimp.gate` (beside it: no argument is updated before this value is known; holds for the loss
    anyway), `scrimp.updates` (the index of the argument that this result replaces, in its very bytes), `scrimp.gradient`
    (the name of the parameter whose gradient it is).

    A function of one of several ranks has `scrimp.whole_batch`, the samples of all of them together; a module has
    `scrimp.target`, what it is compiled for.

    The plan is written to `scrimp.plan` (module), `scrimp.offset` (arguments) and `scrimp.offsets`, `scrimp.body_offsets`
    and `scrimp.workspace` (ops); codegen adds `scrimp.symbol`, `scrimp.units`, `scrimp.grain` and, for a device,
    `scrimp.launch` ([blocks, threads of a block, shared bytes]). The dialect verifies that there are no others and that
    each has its type.
  }];
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let hasConstantMaterializer = 1;
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    static constexpr llvm::StringLiteral kName = "scrimp.name", kInput = "scrimp.input", kParam = "scrimp.param",
                                         kState = "scrimp.state", kScalar = "scrimp.scalar",
                                         kAliases = "scrimp.aliases", kInit = "scrimp.init", kReason = "scrimp.reason",
                                         kBucket = "scrimp.bucket", kValid = "scrimp.valid", kIgnore = "scrimp.ignore",
                                         kOffset = "scrimp.offset", kOutput = "scrimp.output", kGate = "scrimp.gate",
                                         kUpdates = "scrimp.updates", kGradient = "scrimp.gradient",
                                         kStreamed = "scrimp.streamed"; // an input of which only pieces are in memory
    static constexpr llvm::StringLiteral kPlan = "scrimp.plan", kOffsets = "scrimp.offsets",
                                         kBodyOffsets = "scrimp.body_offsets", kWorkspace = "scrimp.workspace",
                                         kSymbol = "scrimp.symbol", kUnits = "scrimp.units", kGrain = "scrimp.grain", kLaunch = "scrimp.launch",
                                         kWholeBatch = "scrimp.whole_batch", kTarget = "scrimp.target", kBuffers = "scrimp.buffers", kUnusedInputs = "scrimp.unused_inputs",
                                         kBatch = "scrimp.batch", kMap = "scrimp.map", kParallel = "scrimp.parallel",
                                         kInnerIndex = "scrimp.inner_index", kScaled = "scrimp.scaled",
                                         kInReaders = "scrimp.in_readers"; // a move that kernels which read it make
  }];
}


def Scrimp_Tensor : StaticShapeTensorOf<[F16, BF16, F32, F64, I1, I8, I32, I64]>;
def Scrimp_FloatTensor : StaticShapeTensorOf<[F16, BF16, F32, F64]>;
def Scrimp_WideFloatTensor : StaticShapeTensorOf<[F32, F64]>;
def Scrimp_NumericTensor : StaticShapeTensorOf<[F16, BF16, F32, F64, I8, I32, I64]>;
def Scrimp_IntTensor : StaticShapeTensorOf<[I1, I8, I32, I64]>;
def Scrimp_IndexTensor : StaticShapeTensorOf<[I32, I64]>;
def Scrimp_BoolTensor : StaticShapeTensorOf<[I1]>;

class Scrimp_Op<string mnemonic, list<Trait> traits = []> : Op<Scrimp_Dialect, mnemonic, traits>;

// What a library's product can do to its sums (LinearOp).
def Scrimp_Epilogue : I64EnumAttr<"Epilogue", "What is computed of the sums of a product", [
    I64EnumAttrCase<"relu", 1>, I64EnumAttrCase<"gelu", 2>, I64EnumAttrCase<"gelu_grad", 3>]> {
  let cppNamespace = "::mlir::scrimp";
}

class isEpilogue<string name> {
  code declaration = "::mlir::scrimp::Epilogue getEpilogue() { return ::mlir::scrimp::Epilogue::" # name # "; }";
}

defvar Scrimp_Differentiable = DeclareOpInterfaceMethods<DifferentiableOp>;
defvar Scrimp_Eval = DeclareOpInterfaceMethods<EvalOp>;

// Where an op's floats differ in type, or it computes in another precision than its kernel family does.
defvar Scrimp_Precision = ["getPrecisionRule"];

// Where an op's dimensions correspond otherwise than element by element.
defvar Scrimp_Dimensions = ["getDimensionRule"];
defvar Scrimp_LinearDimensions = ["getDimensionRule", "isLinearIn"];

// Ops with an optional operand `acc`, in whose bytes result 0 then lies.
defvar Scrimp_UpdatesAcc = DeclareOpInterfaceMethods<AliasOp, ["getTie", "hasCode"]>;

// Ops computed element by element (KernelFamily::Map).
class Scrimp_MapOp<string mnemonic, list<Trait> traits = [], list<string> kernelMethods = [],
                   list<string> splitMethods = Scrimp_Dimensions, list<string> precision = []>
    : Scrimp_Op<mnemonic, !listconcat([Pure, Scrimp_Eval, CostOp, DeclareOpInterfaceMethods<PrecisionOp, precision>,
        DeclareOpInterfaceMethods<BatchSplitOp, splitMethods>,
        DeclareOpInterfaceMethods<KernelOp, !listconcat(["getKernelFamily", "emitElement"], kernelMethods)>], traits)> {
  code mapDefinition = [{
    ::mlir::scrimp::KernelFamily $cppClass::getKernelFamily() { return ::mlir::scrimp::KernelFamily::Map; }
  }];
  let extraClassDefinition = mapDefinition;
}

// Map ops that only move elements: no arithmetic.
class Scrimp_MoveOp<string mnemonic, list<Trait> traits = [], list<string> kernelMethods = [],
                    list<string> splitMethods = Scrimp_Dimensions, list<string> precision = []>
    : Scrimp_MapOp<mnemonic, traits, kernelMethods, splitMethods, precision> {
  code moveDeclaration = [{
    int64_t getFlops() { return 0; }
  }];
  let extraClassDeclaration = moveDeclaration;
}

// Ops computed in independent units (KernelFamily::Rows).
class Scrimp_RowsOp<string mnemonic, list<Trait> traits = [], list<string> kernelMethods = [],
                    list<string> splitMethods = Scrimp_Dimensions, list<string> precision = []>
    : Scrimp_Op<mnemonic, !listconcat([Pure, Scrimp_Eval, CostOp, DeclareOpInterfaceMethods<PrecisionOp, precision>,
        DeclareOpInterfaceMethods<BatchSplitOp, splitMethods>,
        DeclareOpInterfaceMethods<KernelOp,
          !listconcat(["getKernelFamily", "getNumUnits", "emitUnit"], kernelMethods)>], traits)> {
  code rowsDefinition = [{
    ::mlir::scrimp::KernelFamily $cppClass::getKernelFamily() { return ::mlir::scrimp::KernelFamily::Rows; }
  }];
  let extraClassDefinition = rowsDefinition;
}

// Ops that are one call of the runtime's library (KernelFamily::Library).
class Scrimp_LibraryOp<string mnemonic, list<Trait> traits = [], list<string> kernelMethods = [],
                       list<string> splitMethods = Scrimp_Dimensions, list<string> precision = []>
    : Scrimp_Op<mnemonic, !listconcat([Pure, Scrimp_Eval, DeclareOpInterfaceMethods<CostOp, ["getFlops"]>,
        DeclareOpInterfaceMethods<PrecisionOp, precision>,
        DeclareOpInterfaceMethods<BatchSplitOp, splitMethods>,
        DeclareOpInterfaceMethods<KernelOp, !listconcat(["getKernelFamily", "getLibraryCall"], kernelMethods)>],
        traits)> {
  code libraryDefinition = [{
    ::mlir::scrimp::KernelFamily $cppClass::getKernelFamily() { return ::mlir::scrimp::KernelFamily::Library; }
  }];
  let extraClassDefinition = libraryDefinition;
}

#endif
