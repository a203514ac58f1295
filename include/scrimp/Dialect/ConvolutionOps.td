//===- ConvolutionOps.td - convolution, pooling and batch normalisation -------------------------------------------===//
//
// Images are [N, C, H, W]. `pads` is (top, left, bottom, right). One-dimensional forms are these with H = 1.
//
//===----------------------------------------------------------------------------------------------------------------===//
#ifndef SCRIMP_CONVOLUTION_OPS_TD
#define SCRIMP_CONVOLUTION_OPS_TD

include "scrimp/Dialect/ScrimpBase.td"

//===-- Convolution ------------------------------------------------------------------------------------------------===//

class Scrimp_Conv2dBase<string mnemonic>
    : Scrimp_LibraryOp<mnemonic, [Scrimp_Differentiable], ["getWorkspaceTypes", "buildExpansion"],
                       precision = Scrimp_Precision> {
  let hasVerifier = 1;
  let extraClassDefinition = libraryDefinition;
}

def Scrimp_Conv2dOp : Scrimp_Conv2dBase<"conv2d"> {
  let summary = "y[n,o,i,j] = sum over c, k, l of x[n, c, i*stride + k*dilation - pad, ...] * w[o,c,k,l]";
  let description = [{
    x[N, C, H, W], w[O, C / groups, KH, KW]; output channel o sees the input channels of its group. What lies outside x
    counts as 0. All three operations of this family are linear in each operand and are each other's gradients. As in
    matmul, products of f16 and bf16 are exact and summed in f32; the result is that, or rounded once.
  }];
  let arguments = (ins Scrimp_FloatTensor:$x, Scrimp_FloatTensor:$w, DenseI64ArrayAttr:$strides,
                   DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, I64Attr:$groups);
  let results = (outs Scrimp_FloatTensor:$y);
  let assemblyFormat = [{
    $x `,` $w `strides` $strides `pads` $pads `dilations` $dilations `groups` $groups attr-dict
    `:` type($x) `,` type($w) `->` type($y)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::mlir::Value":$w, "::llvm::ArrayRef<int64_t>":$strides,
                                 "::llvm::ArrayRef<int64_t>":$pads, "::llvm::ArrayRef<int64_t>":$dilations,
                                 "int64_t":$groups)>];
}

def Scrimp_Conv2dInputGradOp : Scrimp_Conv2dBase<"conv2d_input_grad"> {
  let summary = "The gradient of conv2d's input; also a transposed convolution";
  let arguments = (ins Scrimp_FloatTensor:$dy, Scrimp_FloatTensor:$w, DenseI64ArrayAttr:$strides,
                   DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, I64Attr:$groups);
  let results = (outs Scrimp_FloatTensor:$dx);
  let assemblyFormat = [{
    $dy `,` $w `strides` $strides `pads` $pads `dilations` $dilations `groups` $groups attr-dict
    `:` type($dy) `,` type($w) `->` type($dx)
  }];
}

def Scrimp_Conv2dWeightGradOp : Scrimp_Conv2dBase<"conv2d_weight_grad"> {
  let summary = "The gradient of conv2d's weight";
  let arguments = (ins Scrimp_FloatTensor:$x, Scrimp_FloatTensor:$dy, DenseI64ArrayAttr:$strides,
                   DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, I64Attr:$groups);
  let results = (outs Scrimp_FloatTensor:$dw);
  let assemblyFormat = [{
    $x `,` $dy `strides` $strides `pads` $pads `dilations` $dilations `groups` $groups attr-dict
    `:` type($x) `,` type($dy) `->` type($dw)
  }];
}

// What convolutions become where the library has none but products of matrices. Columns are those of each group's images:
// [groups, C / groups * KH * KW, N * positions of y].

class Scrimp_ColumnsOp<string mnemonic>
    : Scrimp_RowsOp<mnemonic> {
  let hasVerifier = 1;
  let extraClassDefinition = rowsDefinition;
  let assemblyFormat = [{
    $x `kernel` $kernel `strides` $strides `pads` $pads `dilations` $dilations `groups` $groups attr-dict
    `:` type($x) `->` type($y)
  }];
  let arguments = (ins Scrimp_FloatTensor:$x, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                   DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, I64Attr:$groups);
  let results = (outs Scrimp_FloatTensor:$y);
}

def Scrimp_Im2ColOp : Scrimp_ColumnsOp<"im2col"> {
  let summary = "For each position of a convolution's result, the elements of x that its window covers";
}

def Scrimp_Col2ImOp : Scrimp_ColumnsOp<"col2im"> {
  let summary = "For each element of an image, the sum over the windows that cover it, rounded once";
}

//===-- Pooling ----------------------------------------------------------------------------------------------------===//
// The result's H and W are those of the floor or of the ceiling formula (ONNX's and PyTorch's ceil_mode); every window
// must hold at least one element.

def Scrimp_MaxPool2dOp : Scrimp_RowsOp<"max_pool2d", [Scrimp_Differentiable]> {
  let summary = "The largest element of each window, and where it is";
  let description = [{
    `indices` is the position in the plane, h * W + w, of the first largest element; a NaN counts as largest (as
    torch.nn.functional.max_pool2d). Padding is never chosen.
  }];
  let arguments = (ins Scrimp_FloatTensor:$x, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                   DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations);
  let results = (outs Scrimp_FloatTensor:$y, StaticShapeTensorOf<[I32]>:$indices);
  let assemblyFormat = [{
    $x `kernel` $kernel `strides` $strides `pads` $pads `dilations` $dilations attr-dict
    `:` type($x) `->` type($y) `,` type($indices)
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$y, "::mlir::Value":$x, "::llvm::ArrayRef<int64_t>":$kernel,
                                 "::llvm::ArrayRef<int64_t>":$strides, "::llvm::ArrayRef<int64_t>":$pads,
                                 "::llvm::ArrayRef<int64_t>":$dilations)>];
  let hasVerifier = 1;
  let extraClassDefinition = rowsDefinition;
}

def Scrimp_MaxPool2dGradOp : Scrimp_RowsOp<"max_pool2d_grad", [Scrimp_Differentiable]> {
  let summary = "The gradient of max_pool2d: each element is the sum of those of the windows that chose it, in order";
  let description = [{ Each index lies inside its window, as max_pool2d gives it; another counts for nothing. }];
  let arguments = (ins Scrimp_FloatTensor:$dy, StaticShapeTensorOf<[I32]>:$indices, DenseI64ArrayAttr:$kernel,
                   DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations);
  let results = (outs Scrimp_FloatTensor:$dx);
  let assemblyFormat = [{
    $dy `,` $indices `kernel` $kernel `strides` $strides `pads` $pads `dilations` $dilations attr-dict
    `:` type($dy) `,` type($indices) `->` type($dx)
  }];
  let hasVerifier = 1;
  let extraClassDefinition = rowsDefinition;
}

class Scrimp_AvgPool2dBase<string mnemonic> : Scrimp_RowsOp<mnemonic, [Scrimp_Differentiable]> {
  let hasVerifier = 1;
  let extraClassDefinition = rowsDefinition;
}

def Scrimp_AvgPool2dOp : Scrimp_AvgPool2dBase<"avg_pool2d"> {
  let summary = "The mean of each window";
  let description = [{
    The sum is divided by the number of elements of x in the window; with `count_include_pad` by that of elements of
    the padded x (what a ceiling window reaches beyond the padding never counts).
  }];
  let arguments = (ins Scrimp_FloatTensor:$x, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                   DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, UnitAttr:$count_include_pad);
  let results = (outs Scrimp_FloatTensor:$y);
  let assemblyFormat = [{
    $x `kernel` $kernel `strides` $strides `pads` $pads `dilations` $dilations attr-dict `:` type($x) `->` type($y)
  }];
}

def Scrimp_AvgPool2dGradOp : Scrimp_AvgPool2dBase<"avg_pool2d_grad"> {
  let summary = "The gradient of avg_pool2d: each element is the sum of its windows' shares, in order";
  let arguments = (ins Scrimp_FloatTensor:$dy, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                   DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, UnitAttr:$count_include_pad);
  let results = (outs Scrimp_FloatTensor:$dx);
  let assemblyFormat = [{
    $dy `kernel` $kernel `strides` $strides `pads` $pads `dilations` $dilations attr-dict `:` type($dy) `->` type($dx)
  }];
}

//===-- Batch normalisation ----------------------------------------------------------------------------------------===//

def Scrimp_BatchNormOp : Scrimp_RowsOp<"batch_norm", [Scrimp_Differentiable,
    DeclareOpInterfaceMethods<TrainModeOp>], ["mayOverwrite"], ["getDimensionRule", "buildSharedPiece"],
    Scrimp_Precision> {
  let summary = "Batch normalisation with the statistics of the batch (arXiv:1502.03167)";
  let description = [{
    Over x[N, C, ...], for each channel of n elements: mean; v, the mean squared deviation from it (two passes);
    rstd = 1 / sqrt(v + epsilon); y = (x - mean) * (rstd * scale) + bias; var = v * n / (n - 1), the unbiased variance.
    The vectors have x's compute type (f32 for f16 and bf16).

    The running statistics are operands for the sake of evaluation, where they take the place of mean and var; here they
    are not read. Moving them towards mean and var is the graph's: elementwise ops whose results update them, so that
    this op is pure (it can be computed again) and a step that is skipped leaves them alone.
  }];
  let arguments = (ins Scrimp_FloatTensor:$x, Scrimp_WideFloatTensor:$scale, Scrimp_WideFloatTensor:$bias,
                   Scrimp_WideFloatTensor:$running_mean, Scrimp_WideFloatTensor:$running_var, F64Attr:$epsilon);
  let results = (outs Scrimp_FloatTensor:$y, Scrimp_WideFloatTensor:$mean, Scrimp_WideFloatTensor:$rstd,
                 Scrimp_WideFloatTensor:$var);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::mlir::Value":$scale, "::mlir::Value":$bias,
                                 "::mlir::Value":$runningMean, "::mlir::Value":$runningVar, "double":$epsilon)>];
  let hasVerifier = 1;
  let extraClassDefinition = rowsDefinition;
}

def Scrimp_BatchNormGradOp : Scrimp_RowsOp<"batch_norm_grad", [], ["mayOverwrite"],
                                           ["getDimensionRule", "buildSharedPiece"], Scrimp_Precision> {
  let summary = "The gradients of batch_norm's x, scale and bias from that of y";
  let description = [{
    With n elements a channel and h = (x - mean) * rstd: dbias = sum dy, dscale = sum dy * h,
    dx = scale * rstd * (dy - dbias / n - h * dscale / n).
  }];
  let arguments = (ins Scrimp_FloatTensor:$dy, Scrimp_FloatTensor:$x, Scrimp_WideFloatTensor:$scale,
                   Scrimp_WideFloatTensor:$mean, Scrimp_WideFloatTensor:$rstd);
  let results = (outs Scrimp_FloatTensor:$dx, Scrimp_WideFloatTensor:$dscale, Scrimp_WideFloatTensor:$dbias);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let builders = [OpBuilder<(ins "::mlir::Value":$dy, "::mlir::Value":$x, "::mlir::Value":$scale,
                                 "::mlir::Value":$mean, "::mlir::Value":$rstd)>];
  let hasVerifier = 1;
  let extraClassDefinition = rowsDefinition;
}

#endif
