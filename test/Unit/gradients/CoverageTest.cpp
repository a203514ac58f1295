// No op has a gradient that nobody checks.
#include "CheckGradients.h"

#include "scrimp/Dialect/Scrimp.h"

using namespace mlir;
using namespace mlir::scrimp;

TEST(GradientCoverage, EveryDifferentiableOpHasACase) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<ScrimpDialect>();
  for (RegisteredOperationName op : context.getRegisteredOperations()) {
    StringRef name = op.getStringRef();
    // Of integers: these share a class with ops of floats, but no gradient reaches them.
    bool isOfIntegers = name == "scrimp.and" || name == "scrimp.or" || name == "scrimp.xor";
    if (!op.hasInterface<DifferentiableOp>() || isOfIntegers)
      continue;
    EXPECT_TRUE(llvm::any_of(gradientCaseTexts(),
                             [&](const std::string &text) { return StringRef(text).contains((name + " ").str()); }))
        << name.str() << ": add a case of it to a file beside this one";
  }
}
