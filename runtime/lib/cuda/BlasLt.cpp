// Our matrices are row-major: to the library, which is column-major, each is its transpose, so C^T = op(B)^T op(A)^T is
// asked for and B is its first operand.
#include "BlasLt.h"
#include "../common/GemmArguments.h"
#include "../common/LinearArguments.h"
#include "Names.h"

namespace scrimp::runtime::cuda {

/// What the library is asked for: D = epilogue(op(A) op(B) + addend), all of our orientation.
struct BlasLt::Request {
  GemmCall shape;
  int epilogue = blasEpilogueDefault;
  size_t c = 2, d = 2;     // buffers: the addend, the result
  int bias = -1, aux = -1; // buffers of the epilogue
  int workspace = -1;
  const char *a = nullptr, *b = nullptr; // of the batch member, where members are asked for one by one
  bool accumulate = false;
};

struct Product {
  MatmulDesc desc = nullptr;
  Layout a = nullptr, b = nullptr, c = nullptr;
  Algorithm algorithm{};
  size_t workspaceBytes = 0;
};

BlasLt::BlasLt() = default;

BlasLt::~BlasLt() {
  for (auto &[key, product] : products) {
    for (Layout layout : {product->a, product->b, product->c})
      if (layout)
        cublasLtMatrixLayoutDestroy(layout);
    if (product->desc)
      cublasLtMatmulDescDestroy(product->desc);
  }
  if (handle)
    cublasLtDestroy(handle);
}

Status BlasLt::open(const std::string &folder) {
  Result<SharedLibrary> opened =
      SharedLibrary::open({"libcublasLt.so.13", "libcublasLt.so.12"}, folder, "computes matrix products");
  if (opened.failed())
    return opened.status();
  library = std::move(*opened);
  Status status;
#define SCRIMP_BIND(type, name, parameters)                                                                            \
  if (!status.failed())                                                                                                \
    status = library.bind(#name, name);
  SCRIMP_BLASLT_FUNCTIONS(SCRIMP_BIND)
#undef SCRIMP_BIND
  return status.failed() ? status : check(cublasLtCreate(&handle), "cuBLASLt does not start");
}

std::string BlasLt::describe() const {
  // 12.x counts major * 10000 + minor * 100 + patch, and so does 13.
  size_t version = cublasLtGetVersion();
  return format("cuBLASLt %zu.%zu.%zu ('%s')", version / 10000, version / 100 % 100, version % 100,
                library.path().c_str());
}

Status BlasLt::check(BlasStatus status, const char *what) const {
  if (!status)
    return Status::ok();
  return Status::error("%s: %s", what, cublasLtGetStatusString(status));
}

static int blasType(DType type) {
  switch (type) {
  case DType::f64:
    return blasF64;
  case DType::bf16:
    return blasBf16;
  case DType::f16:
    return blasF16;
  default:
    return blasF32;
  }
}

/// The lowest bits that are set in an address, up to 16 bytes: what a vector access may take.
static unsigned alignmentOf(const void *address, unsigned most) {
  auto bits = reinterpret_cast<uintptr_t>(address);
  while (most > 1 && bits % most)
    most /= 2;
  return most;
}

Status BlasLt::prepare(Product &product, const LibraryArguments &arguments, const Request &request) {
  const GemmCall &s = request.shape;
  DType operand = arguments.typeOf(0), result = arguments.typeOf(request.d), sums = arguments.dtype;
  Status status;
  auto call = [&](BlasStatus code, const char *what) {
    if (!status.failed())
      status = check(code, what);
  };
  int compute = sums == DType::f64                        ? blasCompute64
                : arguments.tf32 && operand == DType::f32 ? blasComputeTf32
                                                          : blasCompute32;
  call(cublasLtMatmulDescCreate(&product.desc, compute, blasType(sums)), "a product cannot be described");
  auto describe = [&](int attribute, const auto &value) {
    call(cublasLtMatmulDescSetAttribute(product.desc, attribute, &value, sizeof(value)),
         "a product cannot be described");
  };
  if (status.failed())
    return status;
  describe(blasDescTransA, s.transB ? blasTransposed : blasPlain);
  describe(blasDescTransB, s.transA ? blasTransposed : blasPlain);
  if (request.epilogue != blasEpilogueDefault) {
    describe(blasDescEpilogue, request.epilogue);
    const void *place = arguments.buffers[request.d]; // any address does to choose by
    if (request.bias >= 0) {
      describe(blasDescBiasPointer, place);
      describe(blasDescBiasType, blasType(result));
    }
    if (request.aux >= 0) {
      describe(blasDescAuxPointer, place);
      describe(blasDescAuxLd, s.n);
      describe(blasDescAuxType, blasType(result));
    }
  }
  auto layout = [&](Layout &made, DType type, int64_t rows, int64_t columns, int64_t stride) {
    call(cublasLtMatrixLayoutCreate(&made, blasType(type), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns),
                                    rows),
         "a matrix cannot be described");
    auto batch = static_cast<int32_t>(s.batch);
    if (status.failed() || batch == 1)
      return;
    call(cublasLtMatrixLayoutSetAttribute(made, blasLayoutBatch, &batch, sizeof(batch)), "a batch cannot be described");
    call(cublasLtMatrixLayoutSetAttribute(made, blasLayoutStride, &stride, sizeof(stride)),
         "a batch cannot be described");
  };
  // As columns of the library: what is m x k here is k x m there.
  layout(product.a, operand, s.transB ? s.k : s.n, s.transB ? s.n : s.k, s.strideB);
  layout(product.b, operand, s.transA ? s.m : s.k, s.transA ? s.k : s.m, s.strideA);
  layout(product.c, result, s.n, s.m, s.strideC);
  if (status.failed())
    return status;

  Preference preference = nullptr;
  call(cublasLtMatmulPreferenceCreate(&preference), "a choice cannot be described");
  auto prefer = [&](int attribute, const auto &value) {
    call(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
         "a choice cannot be described");
  };
  if (status.failed())
    return status;
  prefer(blasPreferWorkspace,
         request.workspace < 0 ? uint64_t(0) : arguments.bytes[static_cast<size_t>(request.workspace)]);
  prefer(blasPreferReductions, uint32_t(blasReduceComputeType));
  prefer(blasPreferAlignA, uint32_t(alignmentOf(request.b, 16)));
  prefer(blasPreferAlignB, uint32_t(alignmentOf(request.a, 16)));
  prefer(blasPreferAlignC, uint32_t(alignmentOf(arguments.buffers[request.c], 16)));
  prefer(blasPreferAlignD, uint32_t(alignmentOf(arguments.buffers[request.d], 16)));
  Heuristic heuristic{};
  int found = 0;
  if (!status.failed()) {
    BlasStatus code = cublasLtMatmulAlgoGetHeuristic(handle, product.desc, product.a, product.b, product.c, product.c,
                                                     preference, 1, &heuristic, &found);
    if (code || !found || heuristic.state)
      status = Status::error(
          "%s has no algorithm for a product of %lld x %lld x %lld (%lld of them) of %s to %s within "
          "%llu bytes of workspace: %s",
          this->describe().c_str(), (long long)s.m, (long long)s.n, (long long)s.k, (long long)s.batch,
          dtypeName(operand), dtypeName(result),
          (unsigned long long)(request.workspace < 0 ? 0 : arguments.bytes[static_cast<size_t>(request.workspace)]),
          cublasLtGetStatusString(code ? code : heuristic.state));
  }
  cublasLtMatmulPreferenceDestroy(preference);
  product.algorithm = heuristic.algorithm;
  product.workspaceBytes = heuristic.workspaceBytes;
  return status;
}

Result<Product *> BlasLt::find(const LibraryArguments &arguments, const Request &request) {
  unsigned alignment = 0; // of each, within 16 bytes
  for (const void *address : {static_cast<const void *>(request.a), static_cast<const void *>(request.b),
                              static_cast<const void *>(arguments.buffers[request.c]),
                              static_cast<const void *>(arguments.buffers[request.d])})
    alignment = alignment * 32 + alignmentOf(address, 16);
  std::unique_ptr<Product> &product = products[{arguments.ints.data(), alignment}];
  if (product)
    return product.get();
  product = std::make_unique<Product>();
  if (Status status = prepare(*product, arguments, request); status.failed())
    return status;
  return product.get();
}

Status BlasLt::run(const LibraryArguments &arguments, const Request &request, Stream stream) {
  Result<Product *> found = find(arguments, request);
  if (found.failed())
    return found.status();
  Product &product = **found;
  auto setPointer = [&](int attribute, int buffer) {
    if (buffer < 0)
      return Status::ok();
    const void *address = arguments.buffers[static_cast<size_t>(buffer)];
    return check(cublasLtMatmulDescSetAttribute(product.desc, attribute, &address, sizeof(address)),
                 "an epilogue cannot be described");
  };
  if (Status status = setPointer(blasDescBiasPointer, request.bias); status.failed())
    return status;
  if (Status status = setPointer(blasDescAuxPointer, request.aux); status.failed())
    return status;
  double one = 1, beta = request.accumulate;
  auto narrowOne = static_cast<float>(one), narrowBeta = static_cast<float>(beta);
  bool isDouble = arguments.dtype == DType::f64;
  void *workspace = request.workspace < 0 ? nullptr : arguments.buffers[static_cast<size_t>(request.workspace)];
  return check(cublasLtMatmul(handle, product.desc, isDouble ? static_cast<void *>(&one) : &narrowOne, request.b,
                              product.a, request.a, product.b, isDouble ? static_cast<void *>(&beta) : &narrowBeta,
                              arguments.buffers[request.c], product.c, arguments.buffers[request.d], product.c,
                              &product.algorithm, workspace, product.workspaceBytes, stream),
               "a product failed");
}

Status BlasLt::gemm(const LibraryArguments &arguments, Stream stream) {
  Request request;
  request.shape = gemmCallOf(arguments);
  GemmCall &s = request.shape;
  request.workspace = 3;
  request.a = arguments.buffers[0];
  request.b = arguments.buffers[1];
  request.accumulate = s.accumulate;
  if (!s.sumsBatch())
    return run(arguments, request, stream);
  // Members add to one C, in their order.
  int64_t members = s.batch;
  s.batch = 1;
  for (int64_t member = 0; member < members; ++member) {
    if (Status status = run(arguments, request, stream); status.failed())
      return status;
    request.accumulate = true;
    request.a += s.strideA * elementBytes(arguments.typeOf(0));
    request.b += s.strideB * elementBytes(arguments.typeOf(1));
  }
  return Status::ok();
}

Status BlasLt::linear(const LibraryArguments &arguments, Stream stream) {
  LinearCall s = linearCallOf(arguments);
  LinearPlaces at(s, /*hasWorkspace=*/true);
  Request request;
  request.shape = s.product();
  request.a = arguments.buffers[0];
  request.b = arguments.buffers[1];
  request.accumulate = s.addend != noAddend;
  request.d = static_cast<size_t>(at.result);
  request.c = s.addend == ownAddend ? static_cast<size_t>(at.addend) : request.d;
  request.bias = at.bias >= 0 ? at.bias : at.sums;
  request.aux = at.read >= 0 ? at.read : at.kept;
  request.workspace = at.workspace;
  static constexpr int epilogues[] = {0, blasEpilogueRelu, blasEpilogueGelu, blasEpilogueGeluAux, blasEpilogueDGelu};
  request.epilogue = epilogues[s.epilogue] | (s.bias ? blasEpilogueBias : 0);
  if (s.sums != noSums)
    request.epilogue = s.sums == sumsOfA ? blasEpilogueBGradB : blasEpilogueBGradA;
  if (!request.epilogue)
    request.epilogue = blasEpilogueDefault;
  return run(arguments, request, stream);
}

} // namespace scrimp::runtime::cuda
