// A stand-in for cuBLASLt beside that for the driver: products by plain loops, in the library's own terms (column-major
// matrices, operations, batches, epilogues), in f64, rounded once. What it refuses the library refuses too.
//   SCRIMP_FAKE_NO_ALGORITHM   the library has none for products of so many columns (n)
//   SCRIMP_FAKE_WRONG          products of so many columns are wrong in their last element
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <unistd.h>

namespace {

enum { success = 0, invalidValue = 7, notSupported = 15 };
enum { f32 = 0, f64 = 1, f16 = 2, bf16 = 14 };

[[noreturn]] void misuse(const char *text) {
  fprintf(stderr, "fake cuBLASLt: %s\n", text);
  _exit(99);
}

struct Desc {
  int compute, scale, transA = 0, transB = 0, epilogue = 1, biasType = -1, auxType = -1;
  void *bias = nullptr, *aux = nullptr;
  int64_t auxLd = 0;
};
struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t ld, stride = 0;
  int32_t batch = 1;
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t reductions = 0xffffffff, align[4] = {256, 256, 256, 256};
};
struct Heuristic {
  uint64_t algorithm[8];
  size_t workspaceBytes;
  int state;
  float waves;
  int reserved[4];
};

int64_t bytesOf(int type) { return type == f64 ? 8 : type == f32 ? 4 : 2; }

double load(int type, const char *data, int64_t index) {
  switch (type) {
  case f64:
    return reinterpret_cast<const double *>(data)[index];
  case f32:
    return reinterpret_cast<const float *>(data)[index];
  case f16:
    return static_cast<double>(reinterpret_cast<const _Float16 *>(data)[index]);
  default: {
    uint32_t bits = static_cast<uint32_t>(reinterpret_cast<const uint16_t *>(data)[index]) << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
  }
  }
}

void store(int type, char *data, int64_t index, double value) {
  auto narrow = static_cast<float>(value);
  switch (type) {
  case f64:
    reinterpret_cast<double *>(data)[index] = value;
    return;
  case f32:
    reinterpret_cast<float *>(data)[index] = narrow;
    return;
  case f16:
    reinterpret_cast<_Float16 *>(data)[index] = static_cast<_Float16>(narrow);
    return;
  default: {
    uint32_t bits;
    memcpy(&bits, &narrow, 4);
    if (!std::isnan(narrow))
      bits += 0x7fff + (bits >> 16 & 1);
    reinterpret_cast<uint16_t *>(data)[index] = static_cast<uint16_t>(bits >> 16);
  }
  }
}

double gelu(double x) { return .5 * x * (1 + std::tanh(.7978845608028654 * (x + .044715 * x * x * x))); }
double geluSlope(double x) {
  double t = std::tanh(.7978845608028654 * (x + .044715 * x * x * x));
  return .5 * (1 + t) + .5 * x * (1 - t * t) * .7978845608028654 * (1 + 3 * .044715 * x * x);
}

template <typename T> void read(T &field, const void *value, size_t bytes) {
  if (bytes != sizeof(field))
    misuse("an attribute of another size");
  memcpy(&field, value, bytes);
}

} // namespace

extern "C" {

int scrimp_fake_enqueue(void *stream, std::function<int()> *work);
char *scrimp_fake_host(unsigned long long address, size_t bytes);

int cublasLtCreate(void **handle) { return *handle = malloc(1), success; }
int cublasLtDestroy(void *handle) { return free(handle), success; }
size_t cublasLtGetVersion() { return 130001; }
const char *cublasLtGetStatusString(int status) {
  return status == notSupported ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_INVALID_VALUE";
}
int cublasLtMatmulDescCreate(Desc **desc, int compute, int scale) { return *desc = new Desc{compute, scale}, success; }
int cublasLtMatmulDescDestroy(Desc *desc) { return delete desc, success; }
int cublasLtMatmulDescSetAttribute(Desc *desc, int attribute, const void *value, size_t bytes) {
  switch (attribute) {
  case 3:
    read(desc->transA, value, bytes);
    break;
  case 4:
    read(desc->transB, value, bytes);
    break;
  case 7:
    read(desc->epilogue, value, bytes);
    break;
  case 8:
    read(desc->bias, value, bytes);
    break;
  case 11:
    read(desc->aux, value, bytes);
    break;
  case 12:
    read(desc->auxLd, value, bytes);
    break;
  case 22:
    read(desc->auxType, value, bytes);
    break;
  case 26:
    read(desc->biasType, value, bytes);
    break;
  default:
    misuse("an unknown attribute of a product");
  }
  return success;
}
int cublasLtMatrixLayoutCreate(Layout **layout, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  if (!rows || !columns || ld < static_cast<int64_t>(rows))
    return invalidValue;
  return *layout = new Layout{type, rows, columns, ld}, success;
}
int cublasLtMatrixLayoutDestroy(Layout *layout) { return delete layout, success; }
int cublasLtMatrixLayoutSetAttribute(Layout *layout, int attribute, const void *value, size_t bytes) {
  if (attribute == 5)
    read(layout->batch, value, bytes);
  else if (attribute == 6)
    read(layout->stride, value, bytes);
  else
    misuse("an unknown attribute of a matrix");
  return success;
}
int cublasLtMatmulPreferenceCreate(Preference **preference) { return *preference = new Preference, success; }
int cublasLtMatmulPreferenceDestroy(Preference *preference) { return delete preference, success; }
int cublasLtMatmulPreferenceSetAttribute(Preference *preference, int attribute, const void *value, size_t bytes) {
  if (attribute == 1)
    read(preference->workspace, value, bytes);
  else if (attribute == 3)
    read(preference->reductions, value, bytes);
  else if (attribute >= 5 && attribute <= 8)
    read(preference->align[attribute - 5], value, bytes);
  else
    misuse("an unknown attribute of a choice");
  return success;
}

static bool agree(const Desc *desc, const Layout *a, const Layout *b, const Layout *d) {
  uint64_t m = desc->transA ? a->columns : a->rows, k = desc->transA ? a->rows : a->columns,
           otherK = desc->transB ? b->columns : b->rows, n = desc->transB ? b->rows : b->columns;
  return m == d->rows && n == d->columns && k == otherK && a->batch == d->batch && b->batch == d->batch &&
         a->type == b->type && desc->scale == (a->type == f64 ? f64 : f32);
}

int cublasLtMatmulAlgoGetHeuristic(void *, Desc *desc, Layout *a, Layout *b, Layout *c, Layout *d,
                                   Preference *preference, int wanted, Heuristic *results, int *found) {
  *found = 0;
  if (preference->reductions & 4)
    misuse("a reduction in the result's type is allowed");
  if (!agree(desc, a, b, d) || c->rows != d->rows || wanted < 1)
    return invalidValue;
  const char *none = getenv("SCRIMP_FAKE_NO_ALGORITHM");
  if (none && d->rows == static_cast<uint64_t>(atoll(none)))
    return notSupported;
  results[0] = {};
  results[0].algorithm[0] = 42;
  results[0].workspaceBytes = preference->workspace;
  return *found = 1, success;
}

int cublasLtMatmul(void *, Desc *desc, const void *alpha, unsigned long long aAt, Layout *a, unsigned long long bAt,
                   Layout *b, const void *beta, unsigned long long cAt, Layout *c, unsigned long long dAt, Layout *d,
                   const uint64_t *algorithm, unsigned long long workspace, size_t workspaceBytes, void *stream) {
  if (!algorithm || *algorithm != 42)
    misuse("a product without an algorithm");
  if (!agree(desc, a, b, d))
    return invalidValue;
  auto scale = [&](const void *value) {
    return desc->scale == f64 ? *static_cast<const double *>(value) : *static_cast<const float *>(value);
  };
  auto m = static_cast<int64_t>(d->rows), n = static_cast<int64_t>(d->columns),
       k = static_cast<int64_t>(desc->transA ? a->rows : a->columns);
  auto whole = [&](const Layout *layout) {
    return static_cast<size_t>(((layout->batch - 1) * layout->stride +
                                layout->ld * (static_cast<int64_t>(layout->columns) - 1) +
                                static_cast<int64_t>(layout->rows)) *
                               bytesOf(layout->type));
  };
  const char *hostA = scrimp_fake_host(aAt, whole(a)), *hostB = scrimp_fake_host(bAt, whole(b)),
             *hostC = scrimp_fake_host(cAt, whole(c));
  char *hostD = scrimp_fake_host(dAt, whole(d));
  if (workspaceBytes)
    scrimp_fake_host(workspace, workspaceBytes);
  int epilogue = desc->epilogue;
  bool sumsA = epilogue == 256, sumsB = epilogue == 512, hasBias = epilogue < 256 && epilogue & 4,
       keeps = epilogue == 160 || epilogue == 164, isGelu = epilogue < 256 && epilogue & 32,
       isRelu = epilogue == 2 || epilogue == 6, reads = epilogue == 192;
  char *bias = hasBias || sumsA || sumsB
                   ? scrimp_fake_host(reinterpret_cast<unsigned long long>(desc->bias),
                                      static_cast<size_t>((sumsB ? n : m) * bytesOf(desc->biasType)))
                   : nullptr;
  char *aux = keeps || reads ? scrimp_fake_host(reinterpret_cast<unsigned long long>(desc->aux),
                                                static_cast<size_t>(m * n * bytesOf(desc->auxType)))
                             : nullptr;
  if (aux && (desc->auxLd % 8 || desc->auxLd < m))
    return notSupported;
  double alphaValue = scale(alpha), betaValue = scale(beta);
  Desc description = *desc;
  Layout layouts[] = {*a, *b, *c, *d};
  const char *wrongText = getenv("SCRIMP_FAKE_WRONG");
  int64_t wrong = wrongText ? atoll(wrongText) : -1;
  std::function<int()> work = [=] {
    auto at = [](const Layout &layout, bool transposed, int64_t row, int64_t column, int64_t member) {
      return member * layout.stride + (transposed ? row * layout.ld + column : column * layout.ld + row);
    };
    auto valueA = [&](int64_t i, int64_t x, int64_t member) {
      return load(layouts[0].type, hostA, at(layouts[0], description.transA, i, x, member));
    };
    auto valueB = [&](int64_t x, int64_t j, int64_t member) {
      return load(layouts[1].type, hostB, at(layouts[1], description.transB, x, j, member));
    };
    for (int64_t member = 0; member < layouts[3].batch; ++member)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t i = 0; i < m; ++i) {
          double sum = 0;
          for (int64_t x = 0; x < k; ++x)
            sum += valueA(i, x, member) * valueB(x, j, member);
          sum *= alphaValue;
          if (betaValue != 0)
            sum += betaValue * load(layouts[2].type, hostC, at(layouts[2], false, i, j, member));
          if (hasBias)
            sum += load(description.biasType, bias, i);
          int64_t place = j * description.auxLd + i;
          if (keeps)
            store(description.auxType, aux, place, sum);
          if (isRelu)
            sum = std::isnan(sum) ? sum : std::max(sum, 0.0);
          if (isGelu)
            sum = gelu(sum);
          if (reads)
            sum *= geluSlope(load(description.auxType, aux, place));
          if (m == wrong && i == m - 1 && j == n - 1)
            sum += 1;
          store(layouts[3].type, hostD, at(layouts[3], false, i, j, member), sum);
        }
    for (int64_t i = 0; sumsA && i < m; ++i) {
      double sum = 0;
      for (int64_t x = 0; x < k; ++x)
        sum += valueA(i, x, 0);
      store(description.biasType, bias, i, sum);
    }
    for (int64_t j = 0; sumsB && j < n; ++j) {
      double sum = 0;
      for (int64_t x = 0; x < k; ++x)
        sum += valueB(x, j, 0);
      store(description.biasType, bias, j, sum);
    }
    return static_cast<int>(success);
  };
  return scrimp_fake_enqueue(stream, &work);
}

} // extern "C"
