//===- ElementwiseOps.td - one formula per op, differentiated beside it -------------------------------------------===//
//
// `formula` is C++ over an expression type: double or int64_t for the interpreter, ScalarExpr for kernels. `gradient`
// is C++ over GraphExpr: `g` is the result's gradient, the operands and the result go by their names. Where a
// derivative can be infinite or NaN, guard(g, d) is g * d, and 0 where g is 0: a branch of a select that was not taken
// adds nothing.
//
//===----------------------------------------------------------------------------------------------------------------===//
#ifndef SCRIMP_ELEMENTWISE_OPS_TD
#define SCRIMP_ELEMENTWISE_OPS_TD

include "scrimp/Dialect/ScrimpBase.td"

class Scrimp_ElementwiseBase<string mnemonic, list<Trait> traits, list<string> splitMethods = [],
                             list<string> precision = [], list<string> kernelMethods = []>
    : Scrimp_MapOp<mnemonic, traits, !listconcat(["isPointwiseOperand"], kernelMethods), splitMethods, precision> {
  code pointwiseDefinition = mapDefinition # [{
    bool $cppClass::isPointwiseOperand(unsigned) { return true; }
  }];
}

// Which element types a formula is instantiated for.
class elementKinds<Type type> {
  code declaration = !cond(
    !eq(type, Scrimp_FloatTensor) : [{ void formulaTakesFloats() {} }],
    !eq(type, Scrimp_IntTensor) : [{ void formulaTakesIntegers() {} }],
    true : [{ void formulaTakesFloats() {} void formulaTakesIntegers() {} }]);
}

// `linear`: see BatchSplitOp, the operands being `sums`.
// `epilogue`: as what a library's product computes it; none by default.
class Scrimp_UnaryOp<string mnemonic, Type type, string formula, string gradient, string linear = "false",
                     string epilogue = "">
    : Scrimp_ElementwiseBase<mnemonic, !listconcat([SameOperandsAndResultType, Scrimp_Differentiable],
                                                   !if(!empty(epilogue), []<Trait>, [EpilogueOp])), ["isLinearIn"]> {
  let arguments = (ins type:$x);
  let results = (outs type:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let hasFolder = 1;
  let extraClassDeclaration = elementKinds<type>.declaration #
                              !if(!empty(epilogue), "", isEpilogue<epilogue>.declaration) # [{
    template <typename E> E formula(E x) { return }] # formula # [{; } }];
  let extraClassDefinition = pointwiseDefinition # [{
    ::llvm::LogicalResult $cppClass::eval(::llvm::ArrayRef<const HostTensor *> operands,
                                          ::llvm::MutableArrayRef<HostTensor> results) {
      return evalUnary(*this, operands, results);
    }
    ::llvm::SmallVector<::mlir::Value> $cppClass::emitElement(::mlir::OpBuilder &builder, ::mlir::Location loc,
                                                              ::mlir::ValueRange ivs, LoadFn load) {
      return emitUnary(*this, builder, loc, ivs, load);
    }
    ::mlir::OpFoldResult $cppClass::fold(FoldAdaptor adaptor) { return foldExactly(*this, adaptor.getOperands()); }
    bool $cppClass::isLinearIn([[maybe_unused]] ::llvm::ArrayRef<bool> sums) { return }] # linear # [{; }
    void $cppClass::buildGradient(::mlir::OpBuilder &builder, ::llvm::ArrayRef<::mlir::Value> resultGrads,
                                  ::llvm::ArrayRef<bool> needed, ::llvm::MutableArrayRef<::mlir::Value> operandGrads) {
      [[maybe_unused]] GraphExpr g(builder, getLoc(), resultGrads[0]), x(builder, getLoc(), getX()),
          y(builder, getLoc(), getY());
      operandGrads[0] = (}] # gradient # [{).value;
    }
  }];
}

// `neutral`: the b for which the result is a, bit for bit.
class Scrimp_BinaryOp<string mnemonic, Type type, string formula, string gradientA, string gradientB,
                      list<Trait> traits = [], string neutral = "std::nullopt", string linear = "false">
    : Scrimp_ElementwiseBase<mnemonic, !listconcat([SameOperandsAndResultType, Scrimp_Differentiable], traits),
                             ["isLinearIn"]> {
  let arguments = (ins type:$a, type:$b);
  let results = (outs type:$y);
  let assemblyFormat = "$a `,` $b attr-dict `:` type($a)";
  let hasFolder = 1;
  let extraClassDeclaration = elementKinds<type>.declaration # [{
    template <typename E> E formula(E a, E b) { return }] # formula # [{; } }];
  let extraClassDefinition = pointwiseDefinition # [{
    ::llvm::LogicalResult $cppClass::eval(::llvm::ArrayRef<const HostTensor *> operands,
                                          ::llvm::MutableArrayRef<HostTensor> results) {
      return evalBinary(*this, operands, results);
    }
    ::llvm::SmallVector<::mlir::Value> $cppClass::emitElement(::mlir::OpBuilder &builder, ::mlir::Location loc,
                                                              ::mlir::ValueRange ivs, LoadFn load) {
      return emitBinary(*this, builder, loc, ivs, load);
    }
    ::mlir::OpFoldResult $cppClass::fold(FoldAdaptor adaptor) {
      if (isSplatOf(adaptor.getB(), }] # neutral # [{))
        return getA();
      return foldExactly(*this, adaptor.getOperands());
    }
    bool $cppClass::isLinearIn([[maybe_unused]] ::llvm::ArrayRef<bool> sums) { return }] # linear # [{; }
    void $cppClass::buildGradient(::mlir::OpBuilder &builder, ::llvm::ArrayRef<::mlir::Value> resultGrads,
                                  ::llvm::ArrayRef<bool> needed, ::llvm::MutableArrayRef<::mlir::Value> operandGrads) {
      [[maybe_unused]] GraphExpr g(builder, getLoc(), resultGrads[0]), a(builder, getLoc(), getA()),
          b(builder, getLoc(), getB()), y(builder, getLoc(), getY());
      if (needed[0])
        operandGrads[0] = (}] # gradientA # [{).value;
      if (needed[1])
        operandGrads[1] = (}] # gradientB # [{).value;
    }
  }];
}

//===-- Arithmetic -------------------------------------------------------------------------------------------------===//

def Scrimp_AddOp : Scrimp_BinaryOp<"add", Scrimp_NumericTensor, "a + b", "g", "g", [Commutative], "-0.0",
                                   "sums[0] && sums[1]"> {
  let summary = "a + b";
}
def Scrimp_SubOp : Scrimp_BinaryOp<"sub", Scrimp_NumericTensor, "a - b", "g", "-g", [], "0.0",
                                   "sums[0] && sums[1]"> {
  let summary = "a - b";
}
def Scrimp_MulOp : Scrimp_BinaryOp<"mul", Scrimp_NumericTensor, "a * b", "g * b", "g * a", [Commutative],
                                   "1.0", "sums[0] != sums[1]"> {
  let summary = "a * b";
}
def Scrimp_DivOp : Scrimp_BinaryOp<"div", Scrimp_NumericTensor, "divide(a, b)", "guard(g, 1.0 / b)",
                                   "guard(g, -(y / b))", [], "1.0",
                                   "sums[0] && !sums[1] && isFloatTensor(getY())"> {
  let summary = "a / b; integers truncate towards zero, and anything / 0 is that thing";
}
def Scrimp_MaximumOp : Scrimp_BinaryOp<"maximum", Scrimp_NumericTensor, "maximum(a, b)",
    "select(gt(a, b), g, select(eq(a, b), 0.5 * g, like(g, 0.0)))",
    "select(gt(b, a), g, select(eq(a, b), 0.5 * g, like(g, 0.0)))", [Commutative]> {
  let summary = "The larger, NaN if one is; equal operands share the gradient (as torch.maximum)";
}
def Scrimp_MinimumOp : Scrimp_BinaryOp<"minimum", Scrimp_NumericTensor, "minimum(a, b)",
    "select(lt(a, b), g, select(eq(a, b), 0.5 * g, like(g, 0.0)))",
    "select(lt(b, a), g, select(eq(a, b), 0.5 * g, like(g, 0.0)))", [Commutative]> {
  let summary = "The smaller, NaN if one is; equal operands share the gradient (as torch.minimum)";
}
def Scrimp_RemainderOp : Scrimp_BinaryOp<"remainder", Scrimp_NumericTensor, "remainder(a, b)", "g",
                                         "guard(g, (a - y) / b) * -1.0"> {
  let summary = "C's fmod or %: the sign of a; anything % 0 of integers is 0";
}
def Scrimp_PowOp : Scrimp_BinaryOp<"pow", Scrimp_FloatTensor, "pow(a, b)",
    "guard(g, select(eq(b, 0.0), like(a, 0.0), b * pow(a, b - 1.0)))",
    "guard(g, select(eq(a, 0.0), like(y, 0.0), y * log(a)))"> {
  let summary = "a to the power b";
}
def Scrimp_NegOp : Scrimp_UnaryOp<"neg", Scrimp_NumericTensor, "-x", "-g", "true"> { let summary = "-x"; }
def Scrimp_AbsOp : Scrimp_UnaryOp<"abs", Scrimp_NumericTensor, "abs(x)",
    "select(gt(x, 0.0), g, select(lt(x, 0.0), -g, like(g, 0.0)))"> {
  let summary = "The magnitude; gradient 0 at 0";
}
def Scrimp_SignOp : Scrimp_UnaryOp<"sign", Scrimp_NumericTensor,
    "select(gt(x, like(x, 0.0)), like(x, 1.0), select(lt(x, like(x, 0.0)), like(x, -1.0), like(x, 0.0)))", "like(g, 0.0)"> {
  let summary = "-1, 0 or 1; gradient 0";
}

//===-- Exponential and trigonometric functions ------------------------------------------------------------------===//

def Scrimp_ExpOp : Scrimp_UnaryOp<"exp", Scrimp_FloatTensor, "exp(x)", "guard(g, y)"> { let summary = "e^x"; }
def Scrimp_LogOp : Scrimp_UnaryOp<"log", Scrimp_FloatTensor, "log(x)", "guard(g, 1.0 / x)"> {
  let summary = "Natural logarithm";
}
def Scrimp_Expm1Op : Scrimp_UnaryOp<"expm1", Scrimp_FloatTensor, "expm1(x)", "guard(g, y + 1.0)"> {
  let summary = "e^x - 1, exact near 0";
}
def Scrimp_Log1pOp : Scrimp_UnaryOp<"log1p", Scrimp_FloatTensor, "log1p(x)", "guard(g, 1.0 / (1.0 + x))"> {
  let summary = "log(1 + x), exact near 0";
}
def Scrimp_SqrtOp : Scrimp_UnaryOp<"sqrt", Scrimp_FloatTensor, "sqrt(x)", "guard(g, 0.5 / y)"> {
  let summary = "Square root";
}
def Scrimp_RsqrtOp : Scrimp_UnaryOp<"rsqrt", Scrimp_FloatTensor, "1.0 / sqrt(x)", "guard(g, -0.5 * y / x)"> {
  let summary = "1 / sqrt(x), rounded twice";
}
def Scrimp_SinOp : Scrimp_UnaryOp<"sin", Scrimp_FloatTensor, "sin(x)", "g * cos(x)"> { let summary = "Sine"; }
def Scrimp_CosOp : Scrimp_UnaryOp<"cos", Scrimp_FloatTensor, "cos(x)", "-(g * sin(x))"> { let summary = "Cosine"; }
def Scrimp_ErfOp : Scrimp_UnaryOp<"erf", Scrimp_FloatTensor, "erf(x)", "g * (1.1283791670955126 * exp(-(x * x)))"> {
  let summary = "Error function";
}
def Scrimp_FloorOp : Scrimp_UnaryOp<"floor", Scrimp_FloatTensor, "floor(x)", "like(g, 0.0)"> {
  let summary = "Towards minus infinity";
}
def Scrimp_CeilOp : Scrimp_UnaryOp<"ceil", Scrimp_FloatTensor, "ceil(x)", "like(g, 0.0)"> {
  let summary = "Towards plus infinity";
}
def Scrimp_RoundOp : Scrimp_UnaryOp<"round", Scrimp_FloatTensor, "roundEven(x)", "like(g, 0.0)"> {
  let summary = "To the nearest integer, halves to even";
}

//===-- Activations ------------------------------------------------------------------------------------------------===//

def Scrimp_TanhOp : Scrimp_UnaryOp<"tanh", Scrimp_FloatTensor, "tanh(x)", "g * (1.0 - y * y)"> {
  let summary = "Hyperbolic tangent";
}
def Scrimp_SigmoidOp : Scrimp_UnaryOp<"sigmoid", Scrimp_FloatTensor, "1.0 / (1.0 + exp(-x))",
                                      "g * (y * (1.0 - y))"> {
  let summary = "1 / (1 + e^-x)";
}
def Scrimp_ReluOp : Scrimp_UnaryOp<"relu", Scrimp_FloatTensor, "maximum(x, like(x, 0.0))",
                                   "select(gt(y, 0.0), g, like(g, 0.0))", "false", "relu"> {
  let summary = "max(x, 0); gradient 0 at 0";
}
def Scrimp_SiluOp : Scrimp_UnaryOp<"silu", Scrimp_FloatTensor, "x / (1.0 + exp(-x))",
                                   "g * (sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x))))"> {
  let summary = "x * sigmoid(x) (Swish)";
}
def Scrimp_GeluOp : Scrimp_UnaryOp<"gelu", Scrimp_FloatTensor,
    "0.5 * x * (1.0 + erf(x * 0.70710678118654752))",
    "g * (0.5 * (1.0 + erf(0.70710678118654752 * x)) + 0.3989422804014327 * (x * exp(-0.5 * (x * x))))"> {
  let summary = "x * Phi(x), Phi the normal distribution function (arXiv:1606.08415)";
}
def Scrimp_GeluTanhOp : Scrimp_UnaryOp<"gelu_tanh", Scrimp_FloatTensor,
    "0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * (x * x * x))))",
    "g.with(GeluTanhGradOp::create(builder, getLoc(), g.value, x.value))", "false", "gelu"> {
  let summary = "GELU by the tanh approximation (arXiv:1606.08415, section 2)";
}
def Scrimp_GeluTanhGradOp : Scrimp_ElementwiseBase<"gelu_tanh_grad", [SameOperandsAndResultType, EpilogueOp],
                                                   ["isLinearIn"]> {
  let summary = "a times the derivative of gelu_tanh at b";
  let arguments = (ins Scrimp_FloatTensor:$a, Scrimp_FloatTensor:$b);
  let results = (outs Scrimp_FloatTensor:$y);
  let assemblyFormat = "$a `,` $b attr-dict `:` type($a)";
  // y = x/2 (1 + t), t = tanh(c (x + d x^3)); y' = (1 + t)/2 + x/2 (1 - t^2) c (1 + 3 d x^2).
  let extraClassDeclaration = isEpilogue<"gelu_grad">.declaration # [{
    void formulaTakesFloats() {}
    template <typename E> E formula(E g, E x) {
      const double c = 0.7978845608028654, d = 0.044715;
      E t = tanh(c * (x + d * (x * x * x)));
      return g * (0.5 * (1.0 + t) + (0.5 * x) * ((1.0 - t * t) * (c * (1.0 + (3 * d) * (x * x)))));
    }
  }];
  let extraClassDefinition = pointwiseDefinition # [{
    ::llvm::LogicalResult $cppClass::eval(::llvm::ArrayRef<const HostTensor *> operands,
                                          ::llvm::MutableArrayRef<HostTensor> results) {
      return evalBinary(*this, operands, results);
    }
    ::llvm::SmallVector<::mlir::Value> $cppClass::emitElement(::mlir::OpBuilder &builder, ::mlir::Location loc,
                                                              ::mlir::ValueRange ivs, LoadFn load) {
      return emitBinary(*this, builder, loc, ivs, load);
    }
    bool $cppClass::isLinearIn(::llvm::ArrayRef<bool> sums) { return sums[0] && !sums[1]; }
  }];
}
def Scrimp_SoftplusOp : Scrimp_UnaryOp<"softplus", Scrimp_FloatTensor,
    "maximum(x, like(x, 0.0)) + log1p(exp(-abs(x)))", "g * sigmoid(x)"> {
  let summary = "log(1 + e^x), without overflow";
}

//===-- Logic ------------------------------------------------------------------------------------------------------===//

def Scrimp_AndOp : Scrimp_BinaryOp<"and", Scrimp_IntTensor, "bitAnd(a, b)", "g", "g", [Commutative], "-1.0"> {
  let summary = "Bitwise and";
}
def Scrimp_OrOp : Scrimp_BinaryOp<"or", Scrimp_IntTensor, "bitOr(a, b)", "g", "g", [Commutative], "0.0"> {
  let summary = "Bitwise or";
}
def Scrimp_XorOp : Scrimp_BinaryOp<"xor", Scrimp_IntTensor, "bitXor(a, b)", "g", "g", [Commutative], "0.0"> {
  let summary = "Bitwise exclusive or";
}

def Scrimp_Predicate : I64EnumAttr<"Predicate", "How two elements compare", [
    I64EnumAttrCase<"eq", 0>, I64EnumAttrCase<"ne", 1>, I64EnumAttrCase<"lt", 2>, I64EnumAttrCase<"le", 3>,
    I64EnumAttrCase<"gt", 4>, I64EnumAttrCase<"ge", 5>]> {
  let cppNamespace = "::mlir::scrimp";
}

def Scrimp_CompareOp : Scrimp_ElementwiseBase<"compare", [SameTypeOperands, SameOperandsAndResultShape]> {
  let summary = "Compares element by element; false with a NaN, apart from ne";
  let arguments = (ins Scrimp_Predicate:$predicate, Scrimp_Tensor:$a, Scrimp_Tensor:$b);
  let results = (outs Scrimp_BoolTensor:$y);
  let assemblyFormat = "$predicate `,` $a `,` $b attr-dict `:` type($a)  `->` type($y)";
  let hasFolder = 1;
  let builders = [OpBuilder<(ins "::mlir::scrimp::Predicate":$predicate, "::mlir::Value":$a, "::mlir::Value":$b)>];
  let extraClassDefinition = pointwiseDefinition;
}

def Scrimp_SelectOp : Scrimp_ElementwiseBase<"select", [AllTypesMatch<["a", "b", "y"]>, Scrimp_Differentiable,
    TypesMatchWith<"the condition has the shape of the result", "a", "condition",
                   "boolLike(::llvm::cast<::mlir::RankedTensorType>($_self))">], ["isLinearIn"], Scrimp_Precision> {
  let summary = "a where the condition holds, b elsewhere";
  let description = [{ The gradient of the branch not taken is 0, whatever its value was. }];
  let arguments = (ins Scrimp_BoolTensor:$condition, Scrimp_Tensor:$a, Scrimp_Tensor:$b);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = "$condition `,` $a `,` $b attr-dict `:` type($a)";
  let hasFolder = 1;
  let extraClassDefinition = pointwiseDefinition;
}

def Scrimp_CastOp : Scrimp_ElementwiseBase<"cast", [SameOperandsAndResultShape, Scrimp_Differentiable],
                                           ["isLinearIn"], Scrimp_Precision, ["isFreeInKernel"]> {
  let summary = "Converts the element type";
  let description = [{
    To a narrower float: to nearest even. Float to integer: towards zero, saturating is not defined. To i1: whether it
    is not zero. A pair of casts that narrows is never folded away: rounding is meant.
  }];
  let arguments = (ins Scrimp_Tensor:$x);
  let results = (outs Scrimp_Tensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
  let hasFolder = 1;
  let extraClassDefinition = pointwiseDefinition;
}

def Scrimp_ClipOp : Scrimp_ElementwiseBase<"clip", [SameOperandsAndResultType, Scrimp_Differentiable]> {
  let summary = "min(max(x, low), high); the gradient passes where low < x < high (as torch.clamp)";
  let description = [{
    `straight_through`: it passes everywhere, as where torch bounds a value under no_grad (cosine_similarity's norms).
  }];
  let arguments = (ins Scrimp_FloatTensor:$x, F64Attr:$low, F64Attr:$high, UnitAttr:$straight_through);
  let results = (outs Scrimp_FloatTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let extraClassDefinition = pointwiseDefinition;
}

def Scrimp_LeakyReluOp : Scrimp_ElementwiseBase<"leaky_relu", [SameOperandsAndResultType, Scrimp_Differentiable]> {
  let summary = "x where x > 0, alpha * x elsewhere";
  let arguments = (ins Scrimp_FloatTensor:$x, F64Attr:$alpha);
  let results = (outs Scrimp_FloatTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let extraClassDefinition = pointwiseDefinition;
}

def Scrimp_EluOp : Scrimp_ElementwiseBase<"elu", [SameOperandsAndResultType, Scrimp_Differentiable]> {
  let summary = "x where x > 0, alpha * expm1(x) elsewhere; gradient alpha at 0";
  let arguments = (ins Scrimp_FloatTensor:$x, F64Attr:$alpha);
  let results = (outs Scrimp_FloatTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let extraClassDefinition = pointwiseDefinition;
}

#endif
