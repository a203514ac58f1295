// A step on a clock: what is exchanged meanwhile costs nothing, what is waited for does.
#include "scrimp/Analysis/StepTime.h"

#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace {
struct StepTimeTest : testing::Test {
  StepTimeTest() {
    context.loadDialect<ScrimpDialect, func::FuncDialect>();
    // A product of 100 x 100 x 100 takes 2 ms, an all_reduce of 1000 floats between two ranks 4.
    rates.library32 = 1e9;
    rates.bytes = rates.kernelFlops = 1e30;
    rates.launch = 0;
    rates.network.inside = {0, 1e6};
  }

  StepTime estimate(const std::string &body) {
    std::string text = "func.func @main(%x: tensor<1000xf32>, %m: tensor<100x100xf32>) {" + body + "return }";
    module = parseSourceString<ModuleOp>(text, &context);
    return estimateStep(*module->getOps<func::FuncOp>().begin(), rates, [this](Operation *op, double seconds) {
      spent[op->getName().stripDialect().str()] += seconds;
    });
  }

  MLIRContext context;
  DeviceRates rates;
  OwningOpRef<ModuleOp> module;
  std::map<std::string, double> spent;
};

const std::string start = "%a = scrimp.all_reduce sum, %x world 2 : tensor<1000xf32>\n",
                  end = "%b = scrimp.wait %a : tensor<1000xf32>\n",
                  product = "scrimp.matmul %m, %m : tensor<100x100xf32>, tensor<100x100xf32> -> tensor<100x100xf32>\n";
} // namespace

TEST_F(StepTimeTest, WhatIsWaitedForIsExposed) {
  StepTime time = estimate(start + end + "%p = " + product);
  EXPECT_NEAR(time.computing, 2e-3, 1e-12);
  EXPECT_NEAR(time.communicating, 4e-3, 1e-12);
  EXPECT_NEAR(time.exposed, 4e-3, 1e-12);
  EXPECT_NEAR(time.getSeconds(), 6e-3, 1e-12);
  EXPECT_NEAR(spent["wait"], 4e-3, 1e-12);
  EXPECT_NEAR(spent["matmul"], 2e-3, 1e-12);
}

TEST_F(StepTimeTest, WhatRunsMeanwhileIsNot) {
  StepTime time = estimate(start + "%p = " + product + end);
  EXPECT_NEAR(time.exposed, 2e-3, 1e-12);
  EXPECT_NEAR(time.getOverlapped(), 2e-3, 1e-12);
  EXPECT_NEAR(time.getSeconds(), 4e-3, 1e-12);
  time = estimate(start + "%p = " + product + "%q = " + product + "%r = " + product + end);
  EXPECT_NEAR(time.exposed, 0, 1e-12);
  EXPECT_NEAR(time.getSeconds(), 6e-3, 1e-12);
}

// One after the other: the second is there 8 ms after the start.
TEST_F(StepTimeTest, OneStreamCommunicates) {
  StepTime time = estimate(start + "%c = scrimp.all_reduce sum, %x world 2 : tensor<1000xf32>\n" + "%p = " + product +
                           end + "%d = scrimp.wait %c : tensor<1000xf32>\n");
  EXPECT_NEAR(time.communicating, 8e-3, 1e-12);
  EXPECT_NEAR(time.exposed, 6e-3, 1e-12);
}

// Ten iterations of a loop, each with an exchange beside a product; another is still on its way when the first begins.
TEST_F(StepTimeTest, LoopsRepeat) {
  std::string loop = R"mlir(
    %l = scrimp.accumulate 10 shared(%m : tensor<100x100xf32>) init(%x : tensor<1000xf32>) {
    ^bb0(%i: tensor<i64>, %n: tensor<100x100xf32>, %s: tensor<1000xf32>):
      %e = scrimp.all_reduce sum, %s world 2 : tensor<1000xf32>
      %o = scrimp.matmul %n, %n : tensor<100x100xf32>, tensor<100x100xf32> -> tensor<100x100xf32>
      %f = scrimp.wait %e : tensor<1000xf32>
      scrimp.yield %f : tensor<1000xf32>
    }
  )mlir";
  EXPECT_NEAR(estimate(loop).getSeconds(), 40e-3, 1e-12);
  EXPECT_NEAR(estimate(loop).communicating, 40e-3, 1e-12);
  EXPECT_NEAR(estimate(start + loop + end).getSeconds(), 44e-3, 1e-12);
}

// Four fifths of the peak while it multiplies, half of the time.
TEST_F(StepTimeTest, Utilization) {
  rates.productShare = 0.8;
  EXPECT_NEAR(estimate(start + "%p = " + product + end).getUtilization(), 0.4, 1e-12);
}
