// Ranks meet in collectives, or an error names what each of them waits for. No program of the dialect can make ranks
// differ in this; what evaluates them must notice all the same.
#include "scrimp/Eval/Ranks.h"
#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace {
struct RanksTest : testing::Test {
  RanksTest() {
    context.loadDialect<ScrimpDialect, func::FuncDialect>();
    context.printOpOnDiagnostic(false);
    context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
      messages.push_back(diagnostic.str());
      for (Diagnostic &note : diagnostic.getNotes())
        messages.push_back(note.str());
    });
    module = parseSourceString<ModuleOp>(R"mlir(
      func.func @main(%x: tensor<2xf32>) {
        %a = scrimp.all_reduce sum, %x world 2 : tensor<2xf32>
        %b = scrimp.wait %a : tensor<2xf32>
        %c = scrimp.all_gather %x world 2 : tensor<2xf32> -> tensor<4xf32>
        %d = scrimp.wait %c : tensor<4xf32>
        return
      }
    )mlir",
                                         &context);
    module->walk([&](Operation *op) {
      if (isa<CollectiveOp>(op))
        collectives.push_back(op);
    });
  }

  HostTensor numbered(int64_t rank) {
    return HostTensor::splat(cast<RankedTensorType>(collectives[0]->getOperand(0).getType()), rank);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  SmallVector<Operation *> collectives;
  std::vector<std::string> messages;
};
} // namespace

TEST_F(RanksTest, EveryRankGetsWhatAllGive) {
  std::vector<double> sums(2);
  LogicalResult result = evalOnRanks(2, [&](int64_t rank) -> LogicalResult {
    EXPECT_EQ(currentRank(), rank);
    for (int64_t round = 0; round < 100; ++round) {
      FailureOr<RankValues> values = exchange(collectives[round % 2], 2, numbered(10 * round + rank));
      if (failed(values))
        return failure();
      sums[rank] += (**values)[0].floats()[0] + 1000 * (**values)[1].floats()[0];
    }
    return success();
  });
  ASSERT_TRUE(succeeded(result));
  // Rounds 0 to 99: 10 (0 + ... + 99) of rank 0, and 1 more a round of rank 1.
  EXPECT_EQ(sums[0], 49500 + 1000 * 49600.0);
  EXPECT_EQ(sums[0], sums[1]);
}

TEST_F(RanksTest, DifferentCollectivesAreAnErrorThatNamesBoth) {
  EXPECT_TRUE(failed(evalOnRanks(2, [&](int64_t rank) -> LogicalResult {
    return success(succeeded(exchange(collectives[rank], 2, numbered(rank))));
  })));
  EXPECT_EQ(messages, (std::vector<std::string>{"'scrimp.all_reduce' op waits for ever on rank 0: rank 1 is in "
                                                "'scrimp.all_gather'",
                                                "the collective of rank 1"}));
}

TEST_F(RanksTest, ARankThatHasEndedIsAnError) {
  EXPECT_TRUE(failed(evalOnRanks(2, [&](int64_t rank) -> LogicalResult {
    return rank == 0 ? success() : success(succeeded(exchange(collectives[1], 2, numbered(rank))));
  })));
  EXPECT_EQ(messages, std::vector<std::string>{"'scrimp.all_gather' op waits for ever on rank 1: rank 0 has ended"});
}

// The others end without a word of their own.
TEST_F(RanksTest, ARankThatFailsEndsAll) {
  EXPECT_TRUE(failed(evalOnRanks(2, [&](int64_t rank) -> LogicalResult {
    if (rank == 1)
      return collectives[1]->emitError("rank 1 fails");
    return success(succeeded(exchange(collectives[0], 2, numbered(rank))));
  })));
  EXPECT_EQ(messages, std::vector<std::string>{"rank 1 fails"});
}
