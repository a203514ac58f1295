// The functions that a program may call by name (program.fbs, Call). Each cuts its work into tiles that are a
// function of shapes and types alone, computes each tile by one thread (GEMM tiles: one single-threaded OpenBLAS
// call), and spreads the tiles over the pool: bits do not depend on the number of threads.
//
// All tensors are row-major and dense. Sums are kept in dtype, f32 or f64; unless said, so are all elements. `[x]` is a
// buffer that is present only if the integers say so. Workspaces are sized by workspace.h for Program.workers workers.
//
//   gemm                C[i] = op(A[i]) op(B[i])  (+ C[i])
//     buffers           A, B, C, [workspace]: A and B of one type, C of that or of dtype; with dtype f32 each may be
//                       bf16 or f16, and then there is a workspace. Products are of the operands as they are, C is
//                       rounded once.
//     ints              batch, m, n, k, transA, transB, strideA, strideB, strideC, accumulate (struct GemmCall)
//                       A[i] is m x k (k x m if transA), B[i] is k x n (n x k if transB), C[i] is m x n; strides are
//                       elements between batch members, 0 = shared. A shared C receives the sum over the batch, in
//                       order. k = 0 gives zeros.
//   linear              S = op(A) op(B) (+ C) (+ bias); Y = epilogue(S); sums over k of an operand
//     buffers           A, B, [C], [bias], [X], Y, [X'], [sums], [workspace]: A, B, Y and workspace as of gemm; the others
//                       have Y's type. S and the epilogue are computed in dtype, and each result is rounded once from
//                       there. C may be Y's bytes; nothing else that is read shares any with a result.
//     ints              m, n, k, transA, transB, addend, bias, epilogue, sums (struct LinearCall)
//                       op(A) is m x k, op(B) k x n, Y m x n, as of gemm.
//                       addend: 1 C is a buffer, m x n; 2 C is what Y holds, and no buffer.
//                       bias: 1 bias[n] is added to each row.
//                       epilogue: 0 Y = S; 1 max(S, 0); 2 gelu(S), of the tanh form; 3 the same, and X' = S, m x n; 4
//                       S gelu'(X), X m x n. 3 and 4 need an n that 8 divides.
//                       sums: 1 sums[i], m of them, over k of op(A)[i, k]; 2 sums[j], n of them, of op(B)[k, j]. Y is of
//                       dtype then, and there is neither bias nor epilogue.
//                       In cuBLASLt, which is column-major, our B is its A: BIAS, RELU(_BIAS), GELU(_AUX)(_BIAS), DGELU;
//                       BGRADB for 1, BGRADA for 2; beta = 1 with an addend.
//   conv2d              y = x * w                           buffers x, w, y, workspace
//   conv2d_input_grad   dx                                  buffers dy, w, dx, workspace
//   conv2d_weight_grad  dw                                  buffers x, dy, dw, workspace
//                       Types as for gemm: two operands, one result.
//     ints              N, C, H, W, O, KH, KW, strideH, strideW, padTop, padLeft, padBottom, padRight, dilH, dilW,
//                       groups
//   attention           out = dropout(softmax(scale q k^T + masks)) v
//     buffers           q, k, v, masks..., [segments], [seed, step, sample_base], [origin], out, lse, workspace
//   attention_grad      dq, dk, dv
//     buffers           q, k, v, out, lse, dout, masks..., [segments], [seed, step, sample_base], [origin], dq, dk, dv,
//                       workspace
//   attention_mask_grad dmask, in the layout of one of the masks
//     buffers           as attention_grad, but dmask, workspace for dq, dk, dv, workspace
//     ints              B, Hq, Hkv, Sq, Sk, D, Dv, left, right, hasSegments, hasDropout, dropoutKey, samples, dropBelow,
//                       hasOrigin, wholeHeads, wholeQueries, wholeKeys, masks (struct AttentionCall); for each mask kind,
//                       offset, strideB, strideH, strideQ, strideK (struct AttentionMask); of attention_mask_grad the
//                       mask's number
//                       q[B,Hq,Sq,D], k[B,Hkv,Sk,D], v[B,Hkv,Sk,Dv], out[B,Hq,Sq,Dv], lse[B,Hq,Sq] (log of the sum
//                       of exponentials; 0 where all keys are masked).
//                       The scores are a piece of wholeHeads x wholeQueries x wholeKeys ones, at origin (i64[3]; 0, 0,
//                       0 without). Query i sees keys p - left <= j <= p + right, p = i + wholeKeys - wholeQueries, by
//                       their indices in the whole; other keys cost nothing.
//                       A mask's element for [b, h, i, j] of the piece lies at offset + the sum of index times stride;
//                       a mask by distance has strides -1 and 1. kind: 1 additive (of dtype), 2 boolean (i1, true =
//                       attend). segments: i64[B,S], S = Sq = Sk; a query sees only keys of its own segment.
//                       Dropout (seed, step, sample_base: i64): the probability at [b, h, i, j] becomes 0 where its
//                       draw is below dropBelow, else it is multiplied. The draw is word e % 4 of the Philox block
//                       with the key seed XOR dropoutKey and the counter (lo32(e / 4), lo32(sample), lo32(step), 2),
//                       where rest = B / samples, sample = sample_base + b / rest, and e is the row-major index of
//                       [b % rest, h, i, j] in rest x the whole. samples = 0: sample is 0 and rest B.
//     floats            scale, what a kept probability is multiplied by
#ifndef SCRIMP_RUNTIME_LIBRARY_H
#define SCRIMP_RUNTIME_LIBRARY_H

#include "scrimp/runtime/DType.h"
#include "scrimp/runtime/Status.h"
#include "scrimp/runtime/ThreadPool.h"
#include <span>
#include <string_view>

namespace scrimp::runtime {

/// The arguments of one call. Owns nothing.
struct LibraryArguments {
  std::span<char *const> buffers;  // host pointers; null while verifying
  std::span<const uint64_t> bytes; // the length of each
  std::span<const int64_t> ints;
  std::span<const double> floats;
  DType dtype = DType::f32;     // of sums
  std::span<const DType> types; // of the buffers' elements, as far as it goes; after that dtype
  int64_t workers = 1;          // workspace slots
  std::string_view where;       // the user's name for what it computes
  bool bf16Dot = false;         // the program is for processors that multiply bf16 (Bf16Dot.h)
  bool forCuda = false;         // the program is for a CUDA device: every product has productWorkspaceBytes of workspace
  bool tf32 = false;            // products of f32 may round their operands to TF32

  DType typeOf(size_t buffer) const { return buffer < types.size() ? types[buffer] : dtype; }
};

/// Whether the program was compiled for processors that multiply bf16 themselves.
bool usesBf16Dot(const program::Program *program);

/// Sets what a call says of itself beside its buffers.
void setScalarArguments(LibraryArguments &arguments, const program::Call &call, const program::Program &program);

/// What makes two calls the same to the library.
std::string keyOf(const program::Call &call);

struct LibraryFunction {
  std::string_view name;
  /// Whether `run` may be called: counts, ranges, buffer sizes. Does not look at buffers' contents.
  Status (*verify)(const LibraryArguments &arguments);
  void (*run)(const LibraryArguments &arguments, ThreadPool &pool);
};

/// Null if there is none of that name.
const LibraryFunction *findLibraryFunction(std::string_view name);

/// The names, for messages.
std::string libraryFunctionNames();

/// Asks OpenBLAS for single-threaded calls. Called once, before any function runs.
void initializeLibrary();

extern const LibraryFunction gemmFunction;
extern const LibraryFunction linearFunction;
extern const LibraryFunction conv2dFunctions[3];
extern const LibraryFunction attentionFunctions[3];

} // namespace scrimp::runtime

#endif
