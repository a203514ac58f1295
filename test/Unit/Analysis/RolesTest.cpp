// What each block of memory is for, told from the attributes of arguments and results and from how values are computed.
#include "scrimp/Analysis/MemoryUse.h"
#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::scrimp;

namespace {

/// "NAME ROLE" for everything that has bytes of its own, in order; what lives across steps first.
std::string rolesIn(StringRef text) {
  MLIRContext context;
  context.loadDialect<ScrimpDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return "";
  auto function = *module->getOps<func::FuncOp>().begin();
  FailureOr<Aliases> aliases = Aliases::compute(function);
  EXPECT_TRUE(succeeded(aliases));
  MemoryUse use = computeMemoryUse(function, *aliases);
  std::string roles;
  llvm::raw_string_ostream os(roles);
  for (const PersistentBlock &block : use.persistent)
    os << userNameOf(block.root) << " " << stringifyRole(block.role) << "\n";
  os << "--\n";
  for (const TransientBlock &block : use.transient)
    for (const Tenant &tenant : block.tenants)
      os << userNameOf(tenant.root) << " " << stringifyRole(tenant.role) << "\n";
  return roles;
}

// Two parts of a batch. What is as large as a parameter is no gradient for that: neither `hidden`, of w's size, nor the
// norm, of c's, which the update of c only scales by.
TEST(Roles, OfATrainingStep) {
  EXPECT_EQ(rolesIn(R"mlir(
    func.func @train(%x: tensor<4x8xf32> {scrimp.name = "x", scrimp.input = 0 : i64},
                     %w: tensor<8xf32> {scrimp.name = "w", scrimp.param = "trainable"},
                     %c: tensor<1xf32> {scrimp.name = "c", scrimp.param = "trainable"},
                     %f: tensor<8xf32> {scrimp.name = "f", scrimp.param = "frozen"},
                     %n: tensor<i64> {scrimp.name = "n", scrimp.state},
                     %m: tensor<8xf32> {scrimp.name = "m", scrimp.state, scrimp.bucket = #scrimp.bucket<elements = 8, members = []>},
                     %scale: tensor<f32> {scrimp.scalar = "loss_scale"})
        -> (tensor<f32> {scrimp.output = "loss"}, tensor<8xf32> {scrimp.updates = 1 : i64},
            tensor<1xf32> {scrimp.updates = 2 : i64}, tensor<i64> {scrimp.updates = 4 : i64},
            tensor<8xf32> {scrimp.updates = 5 : i64}) {
      %zero = scrimp.sub %f, %f : tensor<8xf32> loc("w.sum")
      %none = scrimp.reduce sum, %zero [0] : tensor<8xf32> -> tensor<f32> loc("loss.sum")
      %g, %l = scrimp.accumulate 2 split(%x along [0] : tensor<4x8xf32>) init(%zero, %none : tensor<8xf32>, tensor<f32>) {
      ^bb0(%i: tensor<i64>, %p: tensor<2x8xf32>, %s: tensor<8xf32>, %t: tensor<f32>):
        %row = scrimp.reduce sum, %p [0] : tensor<2x8xf32> -> tensor<8xf32> loc("w.part")
        %all = scrimp.add %s, %row : tensor<8xf32>
        %hidden = scrimp.exp %p : tensor<2x8xf32> loc("hidden")
        %part = scrimp.reduce sum, %hidden [0, 1] : tensor<2x8xf32> -> tensor<f32> loc("loss.part")
        %total = scrimp.add %t, %part : tensor<f32>
        scrimp.yield %all, %total : tensor<8xf32>, tensor<f32>
      } loc("loop")
      %loss = scrimp.neg %l : tensor<f32> loc("loss")
      %m2 = scrimp.add %m, %g : tensor<8xf32>
      %w2 = scrimp.sub %w, %g : tensor<8xf32>
      %gc = scrimp.reduce max, %x [0, 1] : tensor<4x8xf32> -> tensor<f32> loc("c.gradient")
      %norm = scrimp.reduce min, %x [0, 1] : tensor<4x8xf32> -> tensor<f32> loc("norm")
      %both = scrimp.mul %norm, %scale : tensor<f32> loc("factor")
      %factor = scrimp.broadcast %both : tensor<f32> -> tensor<1xf32>
      %flat = scrimp.reshape %gc : tensor<f32> -> tensor<1xf32>
      %scaled = scrimp.mul %flat, %factor : tensor<1xf32> loc("c.scaled")
      %c2 = scrimp.sub %c, %scaled : tensor<1xf32>
      %one = scrimp.constant dense<1> : tensor<i64> loc("one")
      %n2 = scrimp.add %n, %one : tensor<i64>
      return %loss, %w2, %c2, %n2, %m2 : tensor<f32>, tensor<8xf32>, tensor<1xf32>, tensor<i64>, tensor<8xf32>
    })mlir"),
            "x input\nw parameter\nc parameter\nf frozen_parameter\nn buffer\nm optimizer_state\nloss_scale scalar\n"
            "one constant\nloss output\n"
            "--\n"
            "w.sum gradient_sum\nloss.sum sum\niteration of loop activation\nw.part gradient\nhidden activation\n"
            "loss.part activation\nc.gradient gradient\nc.scaled gradient\nnorm activation\nfactor activation\n"
            "scrimp.broadcast activation\n");
}

} // namespace
