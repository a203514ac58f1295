#include "scrimp/runtime/BlasCheck.h"
#include "Blas.h"
#include "PanelGemm.h"
#include "scrimp/runtime/Library.h"
#include "scrimp/runtime/workspace.h"
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <limits>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

namespace scrimp::runtime {

using program::Call;
using program::Graph;

bool productsAreChecked = false;

namespace {

/// What the checks have found, from all threads.
struct Findings {
  std::mutex mutex;
  std::string first;     // the first element that is wrong
  bool isNative = false; // in a product of the processor's own
  std::atomic<int64_t> products = 0;
  bool wholly = false; // every element, or a sample
};
Findings findings;

/// All of [0, extent), or sixteen with both ends: an edge is where a kernel goes wrong.
std::vector<int64_t> chooseIndices(int64_t extent, bool all) {
  std::set<int64_t> chosen;
  int64_t count = all ? extent : std::min<int64_t>(extent, 12);
  for (int64_t i = 0; i < count; ++i)
    chosen.insert(count > 1 ? i * (extent - 1) / (count - 1) : 0);
  if (!all)
    for (int64_t i : {int64_t{1}, extent - 2, extent / 16 * 16 - 1, extent / 16 * 16})
      if (i >= 0 && i < extent)
        chosen.insert(i);
  return {chosen.begin(), chosen.end()};
}

template <typename T> const char *typeName(const Product<T> &) { return sizeof(T) == 4 ? "f32" : "f64"; }
const char *typeName(const PanelProduct &p) { return dtypeName(isNarrow(p.a.type) ? p.a.type : p.b.type); }

template <typename P> std::string describe(const P &p) {
  return format("%s product A%s B%s%s with m = %lld, n = %lld, k = %lld", typeName(p), p.a.transposed ? "^T" : "",
                p.b.transposed ? "^T" : "", p.beta != 0 ? " + C" : "", (long long)p.m, (long long)p.n, (long long)p.k);
}

/// Runs a product and compares it. The bound is that of any order of summation: k roundings of the sum of magnitudes.
template <typename P> void check(const P &p) {
  using T = std::remove_pointer_t<decltype(p.c)>;
  std::vector<int64_t> rows = chooseIndices(p.m, findings.wholly), columns = chooseIndices(p.n, findings.wholly);
  std::vector<T> before;
  for (int64_t i : rows)
    for (int64_t j : columns)
      before.push_back(p.beta != T(0) ? p.c[i * p.strideC + j] : T(0));
  p.compute();
  findings.products.fetch_add(1, std::memory_order_relaxed);
  auto old = before.begin();
  for (int64_t i : rows)
    for (int64_t j : columns) {
      double sum = 0, magnitude = 0, start = static_cast<double>(p.beta) * static_cast<double>(*old++);
      for (int64_t l = 0; l < p.k; ++l) {
        double term = static_cast<double>(p.a.at(i, l)) * static_cast<double>(p.b.at(l, j));
        sum += term;
        magnitude += std::abs(term);
      }
      double expected = p.alpha * sum + start, found = p.c[i * p.strideC + j];
      double bound = static_cast<double>(p.k + 4) * std::numeric_limits<T>::epsilon() *
                     (std::abs(p.alpha) * magnitude + std::abs(start));
      // A sum that is not finite says nothing of the library.
      if (!std::isfinite(expected) || std::abs(found - expected) <= bound)
        continue;
      std::lock_guard lock(findings.mutex);
      if (findings.first.empty()) {
        if constexpr (std::is_same_v<P, PanelProduct>)
          findings.isNative = true; // of others OpenBLAS's product inside has failed before
        findings.first = format("element (%lld, %lld) of an %s is %.9g, expected %.9g", (long long)i, (long long)j,
                                describe(p).c_str(), found, expected);
      }
      return;
    }
}

/// Switches the comparison on while it lives.
class CheckScope {
public:
  explicit CheckScope(bool wholly) {
    findings.first.clear();
    findings.products = 0;
    findings.wholly = wholly;
    productsAreChecked = true;
  }
  ~CheckScope() { productsAreChecked = false; }
};

/// The library, its version and the kernels that it has chosen.
std::string describeLibrary() {
  Dl_info info{};
  std::string file;
  if (dladdr(reinterpret_cast<void *>(&cblas_sgemm), &info) && info.dli_fname)
    file = info.dli_fname;
  std::string config = openblas_get_config();
  std::string version = config.substr(0, config.find(' ', config.find(' ') + 1));
  return format("%s ('%s', kernels for %s)", version.c_str(), file.c_str(), openblas_get_corename());
}

std::string adviseOtherKernels() {
  std::string_view core = openblas_get_corename();
#ifdef __x86_64__
  const char *plainer = core == "SapphireRapids" || core == "Cooperlake" || core == "SkylakeX" ? "Haswell"
                        : core == "Haswell" || core == "Zen" || core == "Excavator"            ? "Sandybridge"
                                                                                               : "Nehalem";
#else
  const char *plainer = "ARMV8";
#endif
  return format("; set OPENBLAS_CORETYPE=%s for plainer kernels, or install a newer OpenBLAS", plainer);
}

Status fault() {
  if (findings.isNative)
    return Status::error("this processor's products of bf16 are wrong: %s; recompile with a --march without avx512bf16",
                         findings.first.c_str());
  return Status::error("%s computes wrong on this processor: %s%s", describeLibrary().c_str(), findings.first.c_str(),
                       adviseOtherKernels().c_str());
}

/// While it lives, a crash is told like a wrong result. The text is made beforehand: a handler may only write it.
class CrashGuard {
public:
  CrashGuard() {
    text = format("%s: error: %s crashes on this processor%s\n", program_invocation_short_name,
                  describeLibrary().c_str(), adviseOtherKernels().c_str());
    for (size_t i = 0; i < std::size(signals); ++i) {
      struct sigaction action = {};
      action.sa_handler = [](int) {
        [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text.data(), text.size());
        _exit(1);
      };
      sigaction(signals[i], &action, &saved[i]);
    }
  }
  ~CrashGuard() {
    for (size_t i = 0; i < std::size(signals); ++i)
      sigaction(signals[i], &saved[i], nullptr);
  }

private:
  static constexpr int signals[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};
  static std::string text;
  struct sigaction saved[std::size(signals)];
};
std::string CrashGuard::text;

/// In [-1, 1].
double randomValue(std::minstd_rand &random) { return static_cast<double>(random()) / std::minstd_rand::max() * 2 - 1; }

template <typename T> void fillRandomly(T *data, int64_t count, std::minstd_rand &random) {
  for (int64_t i = 0; i < count; ++i)
    data[i] = static_cast<T>(randomValue(random));
}

/// Extents that no register tile divides. OpenBLAS takes small products (below 10^6 multiplications) another way.
template <typename T> void checkEveryKind() {
  constexpr int64_t sizes[][3] = {{19, 37, 23}, {141, 107, 71}};
  std::minstd_rand random(1);
  for (auto [m, n, k] : sizes) {
    std::vector<T> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n)), c(static_cast<size_t>(m * n));
    fillRandomly(a.data(), m * k, random);
    fillRandomly(b.data(), k * n, random);
    for (bool transA : {false, true})
      for (bool transB : {false, true})
        for (T beta : {T(0), T(1)})
          gemm<T>(m, n, k, T(0.75), {a.data(), transA ? m : k, transA}, {b.data(), transB ? k : n, transB}, beta,
                  c.data(), n);
  }
}

/// The same of products whose operands are stored in 16 bits; k takes two panels.
void checkEveryKind(DType type, bool bf16Dot) {
  constexpr int64_t sizes[][3] = {{19, 37, 23}, {33, 50, 401}};
  std::minstd_rand random(1);
  for (auto [m, n, k] : sizes) {
    std::vector<uint16_t> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n));
    std::vector<float> c(static_cast<size_t>(m * n));
    std::vector<char> panels(static_cast<size_t>(gemmPanelBytes(m, n, k)));
    for (std::vector<uint16_t> *operand : {&a, &b})
      for (size_t i = 0; i < operand->size(); ++i)
        storeElement(type, reinterpret_cast<char *>(operand->data()), static_cast<int64_t>(i), randomValue(random));
    fillRandomly(c.data(), m * n, random);
    auto bytesOf = [](const std::vector<uint16_t> &operand) { return reinterpret_cast<const char *>(operand.data()); };
    for (bool transA : {false, true})
      for (bool transB : {false, true})
        for (float beta : {0.0f, 1.0f})
          gemm(PanelProduct{m,
                            n,
                            k,
                            0.75f,
                            {bytesOf(a), type, transA ? m : k, transA},
                            {bytesOf(b), type, transB ? k : n, transB},
                            beta,
                            c.data(),
                            n,
                            panels.data(),
                            bf16Dot});
  }
}

template <typename Visit> void forEachCall(const program::Program *program, Visit visit) {
  for (const Graph *graph : items(program->graphs()))
    forEachCommand(graph->commands(), [&](const program::Command *command) {
      if (const Call *call = command->body_as_Call())
        visit(call);
    });
}

} // namespace

void runChecked(const Product<float> &product) { check(product); }
void runChecked(const Product<double> &product) { check(product); }
void runChecked(const PanelProduct &product) { check(product); }

Status checkBlas(const program::Program *program) {
  std::set<DType> types;
  forEachCall(program, [&](const Call *call) {
    types.insert(call->dtype());
    for (DType type : items(call->types()))
      types.insert(type);
  });
  CheckScope scope(/*wholly=*/true);
  CrashGuard guard;
  if (types.count(DType::f32))
    checkEveryKind<float>();
  if (types.count(DType::f64))
    checkEveryKind<double>();
  for (DType type : {DType::bf16, DType::f16})
    if (types.count(type))
      checkEveryKind(type, usesBf16Dot(program));
  return findings.first.empty() ? Status::ok() : fault();
}

Status verifyLibraryCalls(const program::Program *program, char *arena, ThreadPool &pool, std::string &summary) {
  CheckScope scope(/*wholly=*/false);
  CrashGuard guard;
  std::set<std::string> seen;
  Status status;
  std::minstd_rand random(1);
  forEachCall(program, [&](const Call *call) {
    if (status.failed() || !seen.insert(keyOf(*call)).second)
      return;
    std::vector<char *> pointers;
    std::vector<uint64_t> lengths;
    LibraryArguments arguments;
    setScalarArguments(arguments, *call, *program);
    for (const program::Range *range : items(call->buffers())) {
      char *data = arena + range->offset();
      DType type = arguments.typeOf(pointers.size());
      // Masks and segments take any bytes.
      if (!isFloat(type))
        type = arguments.dtype;
      for (int64_t i = 0, count = static_cast<int64_t>(range->bytes()) / elementBytes(type); i < count; ++i)
        storeElement(type, data, i, randomValue(random));
      pointers.push_back(data);
      lengths.push_back(range->bytes());
    }
    arguments.buffers = pointers;
    arguments.bytes = lengths;
    findLibraryFunction(textOf(call->function()))->run(arguments, pool);
    if (findings.first.empty())
      return;
    std::string_view where = textOf(call->location());
    findings.first += format(", in '%.*s'", (int)where.size(), where.data());
    status = fault();
  });
  summary = format("%zu different library calls, %lld matrix products: all agree with plain sums; %s%s", seen.size(),
                   (long long)findings.products.load(), describeLibrary().c_str(),
                   usesBf16Dot(program) ? "; products of bf16 by the processor" : "");
  return status;
}

} // namespace scrimp::runtime
