// PTX that must not leave the compiler.
#include "scrimp/Codegen/PtxGate.h"
#include <gtest/gtest.h>

using namespace mlir::scrimp;

static std::string entry(const std::string &body) {
  return ".version 8.0\n.target sm_80\n.visible .entry k1(\n\t.param .u64 k1_param_0\n)\n{\n" + body + "\tret;\n}\n";
}

TEST(PtxGate, LetsExactCodePass) {
  EXPECT_EQ(findPtxFault(entry("\t.shared .align 4 .b8 __wg_k1_0[512];\n\tsqrt.rn.f32 \t%f1, %f2; // not .approx\n"
                               "\t@%p1 bra \t$L__BB0_3;\n\tbar.sync \t0;\n"),
                         {}),
            "");
}

TEST(PtxGate, FindsWhatIsWrong) {
  EXPECT_EQ(findPtxFault(".extern .func (.param .b32 r) __nv_erff\n" + entry(""), {}),
            "uses '.extern .func (.param .b32 r) __nv_erff', which nothing defines");
  EXPECT_EQ(findPtxFault(entry("\tcall.uni (retval0), f, (param0);\n"), {}), "calls a function in 'k1'");
  EXPECT_EQ(findPtxFault(entry("\t@%p1 sqrt.approx.f32 \t%f1, %f2;\n"), {}),
            "has sqrt.approx.f32 in 'k1', whose ops declare no approximation");
  EXPECT_EQ(findPtxFault(entry("\tadd.ftz.f32 \t%f1, %f2, %f3;\n"), {}),
            "has add.ftz.f32 in 'k1', whose ops declare no approximation");
  EXPECT_EQ(findPtxFault(entry("\t.shared .align 2 .b8 s[64];\n"), {}),
            "has shared memory in 'k1' that is aligned to 2 bytes");
}

TEST(PtxGate, AllowsApproximationsToThoseThatDeclareThem) {
  llvm::StringSet<> declared;
  declared.insert("k1");
  EXPECT_EQ(findPtxFault(entry("\trcp.approx.ftz.f64 \t%fd1, %fd2;\n"), declared), "");
}
