// The report of a small planned module, worked out by hand.
#include "scrimp/Planner/Report.h"
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::scrimp;

static constexpr StringLiteral kModule = R"mlir(
  func.func @train(%x: tensor<4x8xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                   %p: tensor<96xf32> {scrimp.name = "bucket", scrimp.param = "trainable", scrimp.bucket =
                     #scrimp.bucket<elements = 96, members = [#scrimp.member<name = "w", offset = 0, shape = [8, 8]>,
                                                              #scrimp.member<name = "b", offset = 64, shape = [8]>]>})
      -> (tensor<f32> {scrimp.output = "loss"}, tensor<96xf32> {scrimp.updates = 1 : i64}) {
    %w = scrimp.view %p at 0 : tensor<96xf32> -> tensor<8x8xf32>
    %h = scrimp.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("layer")
    %loss = scrimp.reduce sum, %h [0, 1] : tensor<4x8xf32> -> tensor<f32>
    %g = scrimp.matmul %x, %h {transpose_a} : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32> loc("layer.grad")
    %n = scrimp.sub %w, %g : tensor<8x8xf32>
    %q = scrimp.pack %n into %p at 0 : tensor<8x8xf32>, tensor<96xf32>
    return %loss, %q : tensor<f32>, tensor<96xf32>
  }
)mlir";

TEST(Report, OfASmallModule) {
  MLIRContext context;
  context.loadDialect<ScrimpDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(kModule, &context, "model.mlir");
  ASSERT_TRUE(module);
  PassManager manager(&context);
  manager.addPass(createPlanMemory());
  ASSERT_TRUE(succeeded(manager.run(*module)));
  FailureOr<llvm::json::Object> report =
      buildMemoryReport(*module, findBlasKernels({}, /*isExact=*/true), std::nullopt);
  ASSERT_TRUE(succeeded(report));

  // Bucket: 96 * 4 = 384. Inputs: x 128, loss 4 (64). At the gradient: h 128 and g 256.
  EXPECT_EQ(report->getInteger("peak_bytes"), 384 + 192 + 384);
  EXPECT_EQ(report->getInteger("lower_bound_bytes"), 384 + 192 + 384);
  const llvm::json::Object &beside = *report->getObject("beside_arena");
  int64_t besideBytes = *beside.getInteger("code") + *beside.getInteger("data") + *beside.getInteger("library");
  EXPECT_EQ(report->getInteger("process_bytes"), 384 + 192 + 384 + besideBytes);
  const llvm::json::Object &segments = *report->getObject("segments");
  EXPECT_EQ(segments.getInteger("parameters"), 384);
  EXPECT_EQ(segments.getInteger("optimizer_state"), 0);
  EXPECT_EQ(segments.getInteger("inputs"), 192);
  EXPECT_EQ(segments.getInteger("gradients"), 256);
  EXPECT_EQ(segments.getInteger("activations"), 128);
  EXPECT_EQ(segments.getInteger("workspace"), 0);
  EXPECT_EQ(report->getObject("peak")->getString("op"), "layer.grad");
  // Products: 2 * 4 * 8 * 8 each; the reduction and the update one per element.
  EXPECT_EQ(report->getObject("flops")->getInteger("forward"), 512 + 32);
  EXPECT_EQ(report->getObject("flops")->getInteger("backward"), 512 + 64);
  EXPECT_EQ(report->getObject("flops")->getInteger("recompute"), 0);
  // The gradient reads h.
  ASSERT_EQ(report->getArray("residuals")->size(), 1u);
  EXPECT_EQ(report->getArray("residuals")->front().getAsObject()->getString("name"), "layer");
  EXPECT_EQ(report->getArray("residuals")->front().getAsObject()->getInteger("bytes"), 128);
  EXPECT_TRUE(report->getArray("recomputed")->empty());

  std::string text;
  for (const llvm::json::Value &entry : *report->getArray("holders")) {
    const llvm::json::Object &holder = *entry.getAsObject();
    text +=
        (*holder.getString("name") + " " + *holder.getString("kind") + " " + Twine(*holder.getInteger("bytes")) + "\n")
            .str();
    EXPECT_TRUE(holder.getString("location"));
  }
  EXPECT_EQ(text, "layer.grad gradients 256\n"
                  "w parameters 256\n"
                  "layer activations 128\n"
                  "x inputs 128\n"
                  "padding of bucket parameters 96\n"
                  "b parameters 32\n"
                  "output loss inputs 4\n");
}

// KiB that OpenBLAS 0.3.21 has touched of its buffer after one product of 2048 x 1024 by 1024 x n, by its kernels
// (OPENBLAS_CORETYPE): what is counted is no less, and not much more.
TEST(ProcessMemory, PacksAsMeasured) {
  struct Measured {
    std::vector<std::string> features;
    int64_t wide[2], narrow[2]; // n = 1536 and n = 192: of f32 and of f64
  };
  const Measured cases[] = {{{}, {5108, 5108}, {440, 440}},                                        // Nehalem
                            {{"avx"}, {4224, 5120}, {308, 408}},                                   // Sandybridge
                            {{"avx", "avx2"}, {2960, 5120}, {256, 432}},                           // Haswell
                            {{"avx", "avx2", "avx512f"}, {4368, 6720}, {360, 596}},                // SkylakeX
                            {{"avx", "avx2", "avx512f", "avx512bf16"}, {3360, 6720}, {256, 596}}}; // Cooperlake
  for (size_t i = 0; i < std::size(cases); ++i) {
    auto kernels = findBlasKernels(cases[i].features, /*isExact=*/true);
    ASSERT_EQ(kernels.size(), 1u);
    EXPECT_EQ(findBlasKernels(cases[i].features, /*isExact=*/false).size(), std::size(cases) - i);
    for (int type = 0; type < 2; ++type)
      for (auto [n, measured] : {std::pair{1536, cases[i].wide[type]}, {192, cases[i].narrow[type]}}) {
        auto packs = ::scrimp::runtime::blasPacks({2048, n, 1024, type ? 8 : 4}, kernels[0]);
        int64_t kib = (packs.columns + packs.rows + 1023) / 1024;
        EXPECT_GE(kib + 4, measured) << "kernels " << i << ", n = " << n << ", f" << (type ? 64 : 32);
        EXPECT_LE(kib, measured * 1.5) << "kernels " << i << ", n = " << n << ", f" << (type ? 64 : 32);
      }
  }
}
