//===- NeuralOps.td - what models are made of, each with the gradient op it needs ---------------------------------===//
//
// Statistics (mean, rstd, lse, loss) are f32 where the operand is f16 or bf16, otherwise of its element type ("the wide
// type"). Gradient ops are results of differentiation and are not differentiated again.
//
//===----------------------------------------------------------------------------------------------------------------===//
#ifndef SCRIMP_NEURAL_OPS_TD
#define SCRIMP_NEURAL_OPS_TD

include "scrimp/Dialect/ScrimpBase.td"

// One unit per row; `flops` per element of the first operand. `finishes`: maps may finish result 0.
class Scrimp_NeuralRowsOp<string mnemonic, int flops, list<Trait> traits = [], list<string> precision = [],
                          list<string> kernelMethods = [], bit finishes = 0>
    : Scrimp_Op<mnemonic, !listconcat([Pure, Scrimp_Eval, DeclareOpInterfaceMethods<CostOp, ["getFlops"]>,
        DeclareOpInterfaceMethods<PrecisionOp, precision>,
        DeclareOpInterfaceMethods<BatchSplitOp, Scrimp_Dimensions>,
        DeclareOpInterfaceMethods<KernelOp, !listconcat(["getKernelFamily", "getNumUnits", "emitUnit", "mayOverwrite",
                                                         "mayFinish"], kernelMethods)>], traits)> {
  let extraClassDefinition = [{
    ::mlir::scrimp::KernelFamily $cppClass::getKernelFamily() { return ::mlir::scrimp::KernelFamily::Rows; }
    bool $cppClass::mayFinish(unsigned result) { return result == 0 && }] # finishes # [{; }
    int64_t $cppClass::getFlops() { return tensorType((*this)->getOperand(0)).getNumElements() * }] # flops # [{; }
  }];
}

class Scrimp_NeuralMapOp<string mnemonic, int flops, list<Trait> traits = [], list<string> kernelMethods = [],
                         list<string> splitMethods = Scrimp_Dimensions, list<string> precision = []>
    : Scrimp_Op<mnemonic, !listconcat([Pure, Scrimp_Eval, DeclareOpInterfaceMethods<CostOp, ["getFlops"]>,
        DeclareOpInterfaceMethods<PrecisionOp, precision>,
        DeclareOpInterfaceMethods<BatchSplitOp, splitMethods>,
        DeclareOpInterfaceMethods<KernelOp, !listconcat(["getKernelFamily", "emitElement"], kernelMethods)>], traits)> {
  let extraClassDefinition = [{
    ::mlir::scrimp::KernelFamily $cppClass::getKernelFamily() { return ::mlir::scrimp::KernelFamily::Map; }
    int64_t $cppClass::getFlops() { return tensorType((*this)->getResult(0)).getNumElements() * }] # flops # [{; }
  }];
}

//===-- Softmax ----------------------------------------------------------------------------------------------------===//

def Scrimp_SoftmaxOp : Scrimp_NeuralRowsOp<"softmax", 5, [SameOperandsAndResultType, Scrimp_Differentiable]> {
  let summary = "e^x / sum e^x over the last dimension";
  let description = [{ The maximum is subtracted first. A row of -inf gives NaN, as torch.softmax. }];
  let arguments = (ins Scrimp_FloatTensor:$x);
  let results = (outs Scrimp_FloatTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def Scrimp_SoftmaxGradOp : Scrimp_NeuralRowsOp<"softmax_grad", 4, [SameOperandsAndResultType], finishes = 1> {
  let summary = "The gradient of softmax: y (g - sum(y g)), y being its result";
  let arguments = (ins Scrimp_FloatTensor:$y, Scrimp_FloatTensor:$g);
  let results = (outs Scrimp_FloatTensor:$dx);
  let assemblyFormat = "$y `,` $g attr-dict `:` type($y)";
  let hasVerifier = 1;
}

def Scrimp_LogSoftmaxOp : Scrimp_NeuralRowsOp<"log_softmax", 5, [SameOperandsAndResultType, Scrimp_Differentiable], finishes = 1> {
  let summary = "x - log(sum e^x) over the last dimension";
  let arguments = (ins Scrimp_FloatTensor:$x);
  let results = (outs Scrimp_FloatTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def Scrimp_LogSoftmaxGradOp : Scrimp_NeuralRowsOp<"log_softmax_grad", 5, [SameOperandsAndResultType], finishes = 1> {
  let summary = "The gradient of log_softmax: g - e^y sum(g), y being its result";
  let arguments = (ins Scrimp_FloatTensor:$y, Scrimp_FloatTensor:$g);
  let results = (outs Scrimp_FloatTensor:$dx);
  let assemblyFormat = "$y `,` $g attr-dict `:` type($y)";
  let hasVerifier = 1;
}

def Scrimp_LogSumExpOp : Scrimp_NeuralRowsOp<"log_sum_exp", 4, [Scrimp_Differentiable],
    Scrimp_Precision> {
  let summary = "log(sum e^x) over the last dimension, which the result lacks";
  let description = [{ Without overflow. A row of -inf gives -inf, and no gradient, as torch.logsumexp. }];
  let arguments = (ins Scrimp_FloatTensor:$x);
  let results = (outs Scrimp_FloatTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
  let builders = [OpBuilder<(ins "::mlir::Value":$x)>];
  let hasVerifier = 1;
}

//===-- Normalization ----------------------------------------------------------------------------------------------===//

def Scrimp_LayerNormOp : Scrimp_NeuralRowsOp<"layer_norm", 8, [AttrSizedOperandSegments, AllTypesMatch<["x", "y"]>,
    AllTypesMatch<["mean", "rstd"]>, Scrimp_Differentiable],
    Scrimp_Precision, finishes = 1> {
  let summary = "(x - mean) rstd scale + bias; mean and rstd over dimensions axis and up";
  let description = [{
    rstd = 1 / sqrt(variance + epsilon), the variance being the mean of the squared deviations (biased). `scale` and
    `bias` have the normalized dimensions' shape and x's type or the wide one, `mean` and `rstd` the others' and the wide
    type.
  }];
  let arguments = (ins Scrimp_FloatTensor:$x, Optional<Scrimp_FloatTensor>:$scale, Optional<Scrimp_FloatTensor>:$bias,
                   I64Attr:$axis, F64Attr:$epsilon);
  let results = (outs Scrimp_FloatTensor:$y, Scrimp_WideFloatTensor:$mean, Scrimp_WideFloatTensor:$rstd);
  let assemblyFormat = [{
    $x (`scale` `(` $scale^ `:` type($scale) `)`)? (`bias` `(` $bias^ `:` type($bias) `)`)? attr-dict `:` type($x) `->`
    type($mean)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::mlir::Value":$scale, "::mlir::Value":$bias, "int64_t":$axis,
                                 "double":$epsilon)>];
  let hasVerifier = 1;
}

def Scrimp_LayerNormGradOp : Scrimp_NeuralRowsOp<"layer_norm_grad", 12, [AllTypesMatch<["x", "g", "dx"]>,
    AllTypesMatch<["mean", "rstd"]>],
    Scrimp_Precision, finishes = 1> {
  let summary = "The gradient of layer_norm with respect to x";
  let description = [{
    With h = g scale and n = (x - mean) rstd: rstd (h - mean(h) - n mean(h n)).
  }];
  let arguments = (ins Scrimp_FloatTensor:$x, Scrimp_WideFloatTensor:$mean, Scrimp_WideFloatTensor:$rstd,
                   Scrimp_FloatTensor:$g, Optional<Scrimp_FloatTensor>:$scale, I64Attr:$axis);
  let results = (outs Scrimp_FloatTensor:$dx);
  let assemblyFormat = [{
    $x `,` $mean `,` $rstd `,` $g (`scale` `(` $scale^ `:` type($scale) `)`)? attr-dict `:` type($x) `,` type($mean)
  }];
  let hasVerifier = 1;
}

def Scrimp_LayerNormParameterGradOp : Scrimp_NeuralRowsOp<"layer_norm_parameter_grad", 5, [AllTypesMatch<["x", "g"]>,
    AllTypesMatch<["mean", "rstd"]>, AllTypesMatch<["dscale", "dbias"]>],
    Scrimp_Precision, ["buildExpansion"]> {
  let summary = "The gradients of layer_norm with respect to scale and bias: sums over rows of g (x - mean) rstd, of g";
  let description = [{
    One pass over x and g, without a tensor of the products. Rows are added in order. Results of another dimension in
    front hold the sums of that many equal slices of the rows.
  }];
  let arguments = (ins Scrimp_FloatTensor:$x, Scrimp_WideFloatTensor:$mean, Scrimp_WideFloatTensor:$rstd,
                   Scrimp_FloatTensor:$g, I64Attr:$axis);
  let results = (outs Scrimp_FloatTensor:$dscale, Scrimp_FloatTensor:$dbias);
  let assemblyFormat = "$x `,` $mean `,` $rstd `,` $g attr-dict `:` type($x) `,` type($mean) `->` type($dscale)";
  let hasVerifier = 1;
}

def Scrimp_RmsNormOp : Scrimp_NeuralRowsOp<"rms_norm", 5, [AllTypesMatch<["x", "y"]>, Scrimp_Differentiable],
    Scrimp_Precision, finishes = 1> {
  let summary = "x rstd scale; rstd = 1 / sqrt(mean(x^2) + epsilon) over dimensions axis and up";
  let arguments = (ins Scrimp_FloatTensor:$x, Optional<Scrimp_FloatTensor>:$scale, I64Attr:$axis, F64Attr:$epsilon);
  let results = (outs Scrimp_FloatTensor:$y, Scrimp_WideFloatTensor:$rstd);
  let assemblyFormat = "$x (`scale` `(` $scale^ `:` type($scale) `)`)? attr-dict `:` type($x) `->` type($rstd)";
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::mlir::Value":$scale, "int64_t":$axis, "double":$epsilon)>];
  let hasVerifier = 1;
}

def Scrimp_RmsNormGradOp : Scrimp_NeuralRowsOp<"rms_norm_grad", 9, [AllTypesMatch<["x", "g", "dx"]>],
    Scrimp_Precision, finishes = 1> {
  let summary = "The gradient of rms_norm with respect to x";
  let description = [{ With h = g scale and n = x rstd: rstd (h - n mean(h n)). }];
  let arguments = (ins Scrimp_FloatTensor:$x, Scrimp_WideFloatTensor:$rstd, Scrimp_FloatTensor:$g,
                   Optional<Scrimp_FloatTensor>:$scale, I64Attr:$axis);
  let results = (outs Scrimp_FloatTensor:$dx);
  let assemblyFormat = [{
    $x `,` $rstd `,` $g (`scale` `(` $scale^ `:` type($scale) `)`)? attr-dict `:` type($x) `,` type($rstd)
  }];
  let hasVerifier = 1;
}

def Scrimp_RmsNormParameterGradOp : Scrimp_NeuralRowsOp<"rms_norm_parameter_grad", 3, [AllTypesMatch<["x", "g"]>],
    Scrimp_Precision, ["buildExpansion"]> {
  let summary = "The gradient of rms_norm with respect to scale: sums over rows of g x rstd";
  let description = [{ A result of another dimension in front holds the sums of that many equal slices of the rows. }];
  let arguments = (ins Scrimp_FloatTensor:$x, Scrimp_WideFloatTensor:$rstd, Scrimp_FloatTensor:$g, I64Attr:$axis);
  let results = (outs Scrimp_FloatTensor:$dscale);
  let assemblyFormat = "$x `,` $rstd `,` $g attr-dict `:` type($x) `,` type($rstd) `->` type($dscale)";
  let hasVerifier = 1;
}

//===-- Cross entropy ----------------------------------------------------------------------------------------------===//

def Scrimp_CrossEntropyOp : Scrimp_NeuralRowsOp<"cross_entropy", 5, [AllTypesMatch<["loss", "lse"]>,
    Scrimp_Differentiable],
    Scrimp_Precision> {
  let summary = "-log softmax(logits)[label] for each row; 0 where the label is `ignore_index`";
  let description = [{
    logits[N..., C], labels[N...] -> loss[N...] and lse[N...] = log(sum e^logits), both of the wide type. The interpreter
    rejects a label outside [0, C) that is not ignored; kernels clamp it (the runtime has checked the user's data).
  }];
  let arguments = (ins Scrimp_FloatTensor:$logits, Scrimp_IndexTensor:$labels, OptionalAttr<I64Attr>:$ignore_index);
  let results = (outs Scrimp_WideFloatTensor:$loss, Scrimp_WideFloatTensor:$lse);
  let assemblyFormat = "$logits `,` $labels attr-dict `:` type($logits) `,` type($labels) `->` type($loss)";
  let builders = [OpBuilder<(ins "::mlir::Value":$logits, "::mlir::Value":$labels,
                                 CArg<"std::optional<int64_t>", "std::nullopt">:$ignoreIndex)>];
  let hasVerifier = 1;
}

def Scrimp_CrossEntropyGradOp : Scrimp_NeuralMapOp<"cross_entropy_grad", 4, [AllTypesMatch<["logits", "dlogits"]>,
    AllTypesMatch<["lse", "g"]>], ["isPointwiseOperand"], precision = Scrimp_Precision> {
  let summary = "The gradient of cross_entropy: g (e^(logits - lse) - [class = label]), 0 in ignored rows";
  let arguments = (ins Scrimp_FloatTensor:$logits, Scrimp_IndexTensor:$labels, Scrimp_WideFloatTensor:$lse,
                   Scrimp_WideFloatTensor:$g, OptionalAttr<I64Attr>:$ignore_index);
  let results = (outs Scrimp_FloatTensor:$dlogits);
  let assemblyFormat = [{
    $logits `,` $labels `,` $lse `,` $g attr-dict `:` type($logits) `,` type($labels) `,` type($lse)
  }];
  let hasVerifier = 1;
}

def Scrimp_I64Scalar : Type<CPred<"$_self == ::mlir::RankedTensorType::get({}, "
    "::mlir::IntegerType::get($_self.getContext(), 64))">, "tensor<i64>", "::mlir::RankedTensorType">,
  BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getI64Type())">;

//===-- Attention --------------------------------------------------------------------------------------------------===//

// How the scores [B,Hq,Sq,Sk] become probabilities; both ops take it alike.
class Scrimp_AttentionLikeOp<string mnemonic, list<Trait> traits>
    : Scrimp_LibraryOp<mnemonic, !listconcat([AttrSizedOperandSegments], traits),
                       ["getWorkspaceTypes", "getNumUnits", "emitUnit"],
                       ["getDimensionRule", "buildPiece"], Scrimp_Precision> {
  dag scoreArguments = (ins Variadic<AnyTypeOf<[Scrimp_FloatTensor, Scrimp_BoolTensor]>>:$masks,
                   Optional<StaticShapeTensorOf<[I64]>>:$segments, Optional<Scrimp_I64Scalar>:$seed,
                   Optional<Scrimp_I64Scalar>:$step, Optional<Scrimp_I64Scalar>:$sample_base,
                   Optional<StaticShapeTensorOf<[I64]>>:$origin, UnitAttr:$causal, F64Attr:$scale,
                   OptionalAttr<F64Attr>:$p, OptionalAttr<I64Attr>:$key, OptionalAttr<I64Attr>:$samples,
                   OptionalAttr<DenseI64ArrayAttr>:$whole,
                   OptionalAttr<DenseI64ArrayAttr>:$window);
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// How far before and after its own position a query sees keys, by `causal` and `window`; kUnbounded where nothing
    /// bounds it.
    static constexpr int64_t kUnbounded = int64_t(1) << 40;
    std::pair<int64_t, int64_t> getReach() {
      int64_t left = kUnbounded, right = getCausal() ? 0 : kUnbounded;
      if (auto window = getWindow()) {
        left = std::min(left, (*window)[0]);
        right = std::min(right, (*window)[1]);
      }
      return {left, right};
    }
    /// Sets `causal` and `window`.
    void setReach(int64_t left, int64_t right) {
      // The largest distance there is stands for none where only the other side is bounded.
      int64_t most = getQ().getType().getDimSize(2) + getK().getType().getDimSize(2);
      setCausal(right == 0);
      if (left < most || (right != 0 && right < most))
        setWindow(::llvm::ArrayRef<int64_t>{std::min(left, most), std::min(right, most)});
      else
        removeWindowAttr();
    }
  }];
  // The library of a device has none.
  let extraClassDefinition = [{
    ::mlir::scrimp::KernelFamily $cppClass::getKernelFamily() {
      return ::mlir::scrimp::TargetAttr::of(*this).isDevice() ? ::mlir::scrimp::KernelFamily::Rows
                                                              : ::mlir::scrimp::KernelFamily::Library;
    }
  }];
}

def Scrimp_AttentionOp : Scrimp_AttentionLikeOp<"attention", [Scrimp_Differentiable,
    DeclareOpInterfaceMethods<TrainModeOp>]> {
  let summary = "dropout(softmax(scale q k^T + mask)) v for each head, without a tensor of all scores";
  let description = [{
    q[B,Hq,Sq,D], k[B,Hkv,Sk,D], v[B,Hkv,Sk,Dv] -> out[B,Hq,Sq,Dv] and lse[B,Hq,Sq], the logarithm of the sum of
    exponentials, of the wide type. Query head h reads key-value head h / (Hq / Hkv).

    What a query does not see has probability 0. Query i stands at position p = i + Sk - Sq among the keys: with `causal`
    it sees keys j <= p, with `window` = [left, right] keys p - left <= j <= p + right. Of the masks, those of i1 say
    which keys are seen, the others, of q's type or the wide one, are added to the scores, one after the other. A mask has rank 4, each dimension 1 or
    that of [B,Hq,Sq,Sk]; or it goes by distance, [1 or Hq, Sq + Sk - 1], element j - i + Sq - 1 being that of query i
    and key j: no tensor of queries times keys is needed for a function of the distance. With `segments` (i64[B,S], S = Sq = Sk) a query sees the keys of its own segment. A query that sees nothing gets 0
    (and lse 0) and adds nothing to any gradient.

    With `dropout(seed, step, sample_base)` the probabilities become what scrimp.dropout with `p`, `key` and `samples`
    makes of a tensor [B,Hq,Sq,Sk] (batch_dim 0; -1 without `samples`), to the bit. In evaluation nothing is dropped.

    Scores, probabilities and sums are f32 where q, k and v are f16 or bf16; each result is rounded once.

    The scores may be a piece of larger ones: `whole` = [heads, queries, keys] of these, and `origin` (i64[3], a value
    of the graph) the indices of the piece's first score in them. Causality and draws go by the indices in the whole.
  }];
  let arguments = !con((ins Scrimp_FloatTensor:$q, Scrimp_FloatTensor:$k, Scrimp_FloatTensor:$v), scoreArguments);
  let results = (outs Scrimp_FloatTensor:$out, Scrimp_WideFloatTensor:$lse);
  let assemblyFormat = [{
    $q `,` $k `,` $v (`mask` `(` $masks^ `:` type($masks) `)`)? (`segments` `(` $segments^ `:` type($segments) `)`)?
    (`dropout` `(` $seed^ `,` $step `,` $sample_base `)`)? (`origin` `(` $origin^ `:` type($origin) `)`)?
    attr-dict `:` type($q) `,` type($k) `,` type($v) `->` type($out) `,` type($lse)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$q, "::mlir::Value":$k, "::mlir::Value":$v, "::mlir::ValueRange":$masks,
                                 "::mlir::Value":$segments, "bool":$causal, "double":$scale)>];
}

def Scrimp_AttentionGradOp : Scrimp_AttentionLikeOp<"attention_grad", [AllTypesMatch<["q", "dq"]>,
    AllTypesMatch<["k", "dk"]>, AllTypesMatch<["v", "dv"]>, AllTypesMatch<["out", "g"]>]> {
  let summary = "The gradients of attention with respect to q, k and v, from its results and g";
  let arguments = !con((ins Scrimp_FloatTensor:$q, Scrimp_FloatTensor:$k, Scrimp_FloatTensor:$v,
                   Scrimp_FloatTensor:$out, Scrimp_WideFloatTensor:$lse, Scrimp_FloatTensor:$g), scoreArguments);
  let results = (outs Scrimp_FloatTensor:$dq, Scrimp_FloatTensor:$dk, Scrimp_FloatTensor:$dv);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $out `,` $lse `,` $g (`mask` `(` $masks^ `:` type($masks) `)`)?
    (`segments` `(` $segments^ `:` type($segments) `)`)? (`dropout` `(` $seed^ `,` $step `,` $sample_base `)`)?
    (`origin` `(` $origin^ `:` type($origin) `)`)? attr-dict `:` type($q) `,` type($k) `,` type($v) `,` type($out)
    `,` type($lse)
  }];
}

def Scrimp_AttentionMaskGradOp : Scrimp_AttentionLikeOp<"attention_mask_grad", [AllTypesMatch<["out", "g"]>]> {
  let summary = "The gradient of attention with respect to the mask numbered `index`, summed over where it repeats, in lse's type";
  let arguments = !con((ins Scrimp_FloatTensor:$q, Scrimp_FloatTensor:$k, Scrimp_FloatTensor:$v,
                   Scrimp_FloatTensor:$out, Scrimp_WideFloatTensor:$lse, Scrimp_FloatTensor:$g), scoreArguments,
                   (ins I64Attr:$index));
  let results = (outs Scrimp_WideFloatTensor:$dmask);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $out `,` $lse `,` $g (`mask` `(` $masks^ `:` type($masks) `)`)?
    (`segments` `(` $segments^ `:` type($segments) `)`)? (`dropout` `(` $seed^ `,` $step `,` $sample_base `)`)?
    (`origin` `(` $origin^ `:` type($origin) `)`)? attr-dict `:` type($q) `,` type($k) `,` type($v) `,` type($out)
    `,` type($lse) `->` type($dmask)
  }];
}

//===-- Random numbers ---------------------------------------------------------------------------------------------===//
// Philox4x32-10 (Codegen/Philox.h says how counter and key are laid out), keyed by seed, step, the op's `key`, the
// global sample index and the element within the sample, so that a draw does not depend on how the batch is split, on
// recomputation or on the order of execution. Two ops never share a key.
//
// `samples` samples lie along dimension `batch_dim`, each in size / samples indices (index = sample * rest + r); the
// first of them has the global index `sample_base`. The element within the sample is its row-major index, r in the
// place of the batch index. batch_dim = -1: the tensor belongs to no sample, and sample_base is not used.
//
// The tensor may be a piece of a larger one: `whole` is the shape of one sample of that, and `origin` (an i64 for each
// dimension, a value of the graph) the index within the sample of the piece's first element. The piece draws what the
// whole draws there.

class Scrimp_RandomOp<string mnemonic, int flops, list<Trait> traits = [], list<string> kernelMethods = []>
    : Scrimp_NeuralMapOp<mnemonic, flops, traits, kernelMethods, ["getDimensionRule", "buildPiece"]> {
  dag randomArguments = (ins Scrimp_I64Scalar:$seed, Scrimp_I64Scalar:$step, Scrimp_I64Scalar:$sample_base,
                         Optional<StaticShapeTensorOf<[I64]>>:$origin, I64Attr:$key, I64Attr:$batch_dim,
                         I64Attr:$samples, OptionalAttr<DenseI64ArrayAttr>:$whole);
  let hasVerifier = 1;
}

def Scrimp_DropoutOp : Scrimp_RandomOp<"dropout", 40, [AllTypesMatch<["x", "y"]>, Scrimp_Differentiable,
    DeclareOpInterfaceMethods<TrainModeOp>], ["isPointwiseOperand"]> {
  let summary = "Each element is 0 with probability p, else x / (1 - p)";
  let description = [{
    An element is dropped where its 32 random bits are below floor(p 2^32). In evaluation it is its operand.
  }];
  let arguments = !con((ins Scrimp_FloatTensor:$x), randomArguments, (ins F64Attr:$p));
  let results = (outs Scrimp_FloatTensor:$y);
  let assemblyFormat = [{
    $x `,` $seed `,` $step `,` $sample_base (`origin` `(` $origin^ `:` type($origin) `)`)? attr-dict `:` type($x)
  }];
  let hasFolder = 1;
}

def Scrimp_RandomUniformOp : Scrimp_RandomOp<"random_uniform", 40> {
  let summary = "low + (high - low) u, u being 24 random bits / 2^24, computed in f64 and rounded once";
  let arguments = !con(randomArguments, (ins F64Attr:$low, F64Attr:$high));
  let results = (outs Scrimp_FloatTensor:$y);
  let assemblyFormat = [{
    $seed `,` $step `,` $sample_base (`origin` `(` $origin^ `:` type($origin) `)`)? attr-dict `:` type($y)
  }];
}

def Scrimp_StochasticRoundOp : Scrimp_RandomOp<"stochastic_round", 40, [AllShapesMatch<["x", "y"]>],
                                               ["isPointwiseOperand"]> {
  let summary = "x rounded to bf16, up or down by chance, so that the mean is x";
  let description = [{
    Of the two neighbours in bf16 the farther from 0 is taken with a probability of the distance from the other, in 65536ths
    of a bf16 step: where the upper 16 random bits added to x's lower 16 carry. What bf16 holds, infinities and NaN stay.
    Sums of many small steps come out right where rounding to nearest would lose each of them (arXiv:2010.06192).

    Where x, or the whole that it is a piece of, is several tensors behind one another, tensor i begins at element `begins`[i]
    and draws with `keys`[i] what it would draw alone.
  }];
  let arguments = !con((ins StaticShapeTensorOf<[F32]>:$x), randomArguments,
                       (ins OptionalAttr<DenseI64ArrayAttr>:$begins, OptionalAttr<DenseI64ArrayAttr>:$keys));
  let results = (outs StaticShapeTensorOf<[BF16]>:$y);
  let assemblyFormat = [{
    $x `,` $seed `,` $step `,` $sample_base (`origin` `(` $origin^ `:` type($origin) `)`)? attr-dict `:` type($x)
    `->` type($y)
  }];
}

#endif
