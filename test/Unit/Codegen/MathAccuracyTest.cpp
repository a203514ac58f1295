// The error of f32 math functions in compiled kernels, over all exponents, against libm in double.
#include "scrimp/Codegen/LoadedKernels.h"
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <bit>
#include <cmath>

using namespace mlir;
using namespace mlir::scrimp;

namespace {
/// A kernel that applies `op` element by element to buffers 0 .. operands-1.
class ElementwiseKernel {
public:
  ElementwiseKernel(StringRef op, unsigned operands, StringRef cpu) {
    DialectRegistry registry;
    registry.insert<ScrimpDialect, func::FuncDialect>();
    registerCodegenDialects(registry);
    context.appendDialectRegistry(registry);
    std::string text = "func.func @main(%a: tensor<99xf32>, %b: tensor<99xf32>) -> tensor<99xf32> {\n  %0 = scrimp." +
                       op.str() + (operands == 2 ? " %a, %b" : " %a") +
                       " : tensor<99xf32>\n  return %0 : tensor<99xf32>\n}";
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    PassManager pm(&context);
    pm.addPass(createFormKernels());
    CpuOptions options;
    options.cpu = cpu == "device" ? "host" : cpu.str();
    if (module && cpu == "device")
      (*module)->setAttr(ScrimpDialect::kTarget, TargetAttr::get(&context, TargetKind::emulated, 1, /*tf32=*/false));
    if (!module || failed(pm.run(*module)))
      return;
    auto emitted = emitKernels(*module);
    if (failed(emitted))
      return;
    auto kernels = LoadedKernels::load(**emitted, options);
    if (succeeded(kernels))
      loaded.emplace(std::move(*kernels));
  }

  bool isValid() const { return loaded.has_value(); }

  /// A flat kernel takes any range.
  std::vector<float> run(std::vector<std::vector<float>> inputs) {
    std::vector<float> output(inputs[0].size());
    std::vector<char *> buffers;
    for (auto &input : inputs)
      buffers.push_back(reinterpret_cast<char *>(input.data()));
    buffers.push_back(reinterpret_cast<char *>(output.data()));
    buffers.insert(buffers.end(), 2, nullptr); // a device's launch depends on nothing
    loaded->lookup("k0")(buffers.data(), 0, output.size());
    return output;
  }

private:
  MLIRContext context{MLIRContext::Threading::DISABLED};
  std::optional<LoadedKernels> loaded;
};

/// Distance of `actual` from `exact` in units of the last place of f32 at `exact`.
double ulpsBetween(float actual, double exact) {
  float rounded = static_cast<float>(exact);
  if (std::isnan(rounded) || std::isnan(actual))
    return std::isnan(rounded) && std::isnan(actual) ? 0 : INFINITY;
  if (std::isinf(rounded) || std::isinf(actual))
    return rounded == actual ? 0 : INFINITY;
  int exponent;
  std::frexp(exact, &exponent);
  return std::fabs(actual - exact) / std::ldexp(1.0, std::max(exponent, -125) - 24);
}

struct Case {
  const char *op;
  double (*exact)(double);
  double ulps;
};

class MathAccuracy : public testing::TestWithParam<std::tuple<Case, const char *>> {};

TEST_P(MathAccuracy, UnaryOverAllExponents) {
  auto [function, cpu] = GetParam();
  ElementwiseKernel kernel(function.op, 1, cpu);
  ASSERT_TRUE(kernel.isValid());
  // Every 4099th bit pattern: all exponents, NaNs, denormals; and the edges.
  std::vector<float> x = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 88.72283f, 88.72284f, -87.33655f, -103.97208f};
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += 4099)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  std::vector<float> y = kernel.run({x});
  double worst = -1;
  size_t at = 0;
  for (size_t i = 0; i < x.size(); ++i)
    if (double error = ulpsBetween(y[i], function.exact(x[i])); error > worst)
      worst = error, at = i;
  // A device has no libm to call.
  bool isBuilt = cpu == StringRef("device") && function.op == StringRef("log1p");
  EXPECT_LE(worst, isBuilt ? 2.5 : function.ulps)
      << function.op << "(" << x[at] << ") = " << y[at] << ", expected " << function.exact(x[at]);
  RecordProperty("worst_ulps", std::to_string(worst));
}

INSTANTIATE_TEST_SUITE_P(Functions, MathAccuracy,
                         testing::Combine(testing::Values(Case{"exp", std::exp, 1.0}, Case{"log", std::log, 1.3},
                                                          Case{"expm1", std::expm1, 3.0},
                                                          Case{"log1p", std::log1p, 1.0}, Case{"tanh", std::tanh, 2.0},
                                                          Case{"erf", std::erf, 4.5}, Case{"sin", std::sin, 1.0},
                                                          Case{"cos", std::cos, 1.0}, Case{"sqrt", std::sqrt, 0.5}),
                                          testing::Values("host", "baseline", "device")),
                         [](const auto &info) {
                           return std::string(std::get<0>(info.param).op) + "_" + std::get<1>(info.param);
                         });

class MathAccuracyBinary : public testing::TestWithParam<const char *> {
public:
  /// Largest error over pairs of edges and of numbers of all sizes, and where it is.
  void check(const char *op, double (*exact)(double, double), double ulps) {
    ElementwiseKernel kernel(op, 2, GetParam());
    ASSERT_TRUE(kernel.isValid());
    std::vector<float> edges = {0.0f,  -0.0f,    1e-40f,    0.1f,   0.5f,    1.0f,   1.5f,
                                2.0f,  3.0f,     17.25f,    100.0f, 1e20f,   -1.0f,  -2.0f,
                                -2.5f, INFINITY, -INFINITY, 3e38f,  -1e-40f, 1e-30f, NAN},
                       a, b;
    for (float x : edges)
      for (float y : edges)
        a.push_back(x), b.push_back(y);
    for (uint32_t i = 0; i < 100000; ++i) {
      a.push_back(std::bit_cast<float>(i * 2654435761u));
      b.push_back(std::bit_cast<float>((i * 40503u) % 0x0a000000u + 0x3b000000u));
      a.push_back(0.5f + static_cast<float>(i % 1000) / 500);
      b.push_back(static_cast<float>(i) / 1000 - 50);
    }
    std::vector<float> y = kernel.run({a, b});
    double worst = -1;
    size_t at = 0;
    for (size_t i = 0; i < a.size(); ++i)
      if (double error = ulpsBetween(y[i], exact(a[i], b[i])); error > worst)
        worst = error, at = i;
    EXPECT_LE(worst, ulps) << op << "(" << a[at] << ", " << b[at] << ") = " << y[at] << ", expected "
                           << exact(a[at], b[at]);
  }
};

TEST_P(MathAccuracyBinary, Pow) { check("pow", std::pow, 1.0); }
TEST_P(MathAccuracyBinary, Remainder) { check("remainder", std::fmod, 0.0); }
INSTANTIATE_TEST_SUITE_P(Targets, MathAccuracyBinary, testing::Values("host", "device"),
                         [](const auto &info) { return std::string(info.param); });
} // namespace
