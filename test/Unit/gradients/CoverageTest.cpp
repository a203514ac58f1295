// No op has a gradient, a form or a kernel that nobody checks.
#include "CheckGradients.h"

#include "scrimp/Dialect/Scrimp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace mlir::scrimp;

static std::vector<RegisteredOperationName> allOps(MLIRContext &context) {
  context.loadDialect<ScrimpDialect>();
  std::vector<RegisteredOperationName> ops;
  for (RegisteredOperationName op : context.getRegisteredOperations())
    if (op.getDialectNamespace() == ScrimpDialect::getDialectNamespace())
      ops.push_back(op);
  return ops;
}

/// The text of a test file, without its comments.
static std::string readCode(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  EXPECT_TRUE(static_cast<bool>(buffer)) << path.str();
  std::string code;
  SmallVector<StringRef> lines;
  if (buffer)
    (*buffer)->getBuffer().split(lines, '\n');
  for (StringRef line : lines)
    code += (line.split("//").first + "\n").str();
  return code;
}

static bool mentions(StringRef code, StringRef op) {
  return code.contains((op + " ").str()) || code.contains((op + "(").str());
}

/// Whether scrimp-kernel-test runs this file, and does not only print its code.
static bool runsKernels(StringRef text) {
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  return llvm::any_of(lines, [](StringRef line) {
    return line.contains("RUN:") && line.contains("scrimp-kernel-test") && !line.contains("--emit");
  });
}

TEST(GradientCoverage, EveryDifferentiableOpHasACase) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  for (RegisteredOperationName op : allOps(context)) {
    StringRef name = op.getStringRef();
    // Of integers: these share a class with ops of floats, but no gradient reaches them.
    bool isOfIntegers = name == "scrimp.and" || name == "scrimp.or" || name == "scrimp.xor";
    if (!op.hasInterface<DifferentiableOp>() || isOfIntegers)
      continue;
    EXPECT_TRUE(llvm::any_of(gradientCaseTexts(), [&](const std::string &text) { return mentions(text, name); }))
        << name.str() << ": add a case of it to a file beside this one";
  }
}

TEST(RoundTripCoverage, EveryOpHasALine) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  std::string code = readCode(SCRIMP_TESTS "/Dialect/roundtrip.mlir");
  for (RegisteredOperationName op : allOps(context))
    EXPECT_TRUE(mentions(code, op.getStringRef()))
        << op.getStringRef().str() << ": add a line of it to test/Dialect/roundtrip.mlir";
}

TEST(KernelCoverage, EveryOpWithCodeIsComparedWithTheInterpreter) {
  DialectRegistry registry;
  registry.insert<ScrimpDialect, func::FuncDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  // It has every op, and an op knows its family. Views have no code, the library's calls are compared with sums in
  // test/Unit/runtime.
  OwningOpRef<ModuleOp> every = parseSourceFile<ModuleOp>(SCRIMP_TESTS "/Dialect/roundtrip.mlir", &context);
  ASSERT_TRUE(every);
  std::string code;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator file(SCRIMP_TESTS "/Codegen", error), end; !error && file != end;
       file.increment(error))
    if (StringRef(file->path()).ends_with(".mlir"))
      if (auto buffer = llvm::MemoryBuffer::getFile(file->path()); buffer && runsKernels((*buffer)->getBuffer()))
        code += readCode(file->path());
  ASSERT_FALSE(code.empty());
  every->walk([&](KernelOp op) {
    if (op.getKernelFamily() == KernelFamily::Map || op.getKernelFamily() == KernelFamily::Rows)
      EXPECT_TRUE(mentions(code, op->getName().getStringRef()))
          << op->getName().getStringRef().str() << ": add it to a file of test/Codegen that scrimp-kernel-test runs";
  });
}
