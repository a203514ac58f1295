// What torch wrote beside the graph is read for what it is, and damaged text of that kind is refused or read, never a
// crash.
#include "TorchMetadata.h"

#include "gtest/gtest.h"

using namespace mlir::scrimp::onnx_import;

namespace {

constexpr const char *kSignature = "\n# inputs\n"
                                   "p_h_0_ln_weight: PARAMETER target='h.0.ln.weight'\n"
                                   "b_scale: BUFFER target='scale' persistent=True\n"
                                   "b_mask: BUFFER target='mask' persistent=False\n"
                                   "c_lifted_tensor_0: CONSTANT_TENSOR target='lifted_tensor_0'\n"
                                   "obj: CUSTOM_OBJ target='obj'\n"
                                   "x: USER_INPUT\n"
                                   "\n# outputs\n"
                                   "getitem_3: BUFFER_MUTATION target='scale'\n"
                                   "add: USER_OUTPUT\n";
constexpr const char *kCall = "%addmm_1 : [num_users=2] = call_function[target=torch.ops.aten.addmm.default]"
                              "(args = (%p_bias, [%a, (%b, 3)], %p_w, None, 1e-05), kwargs = {alpha: 1, out: %c})";

TEST(TorchMetadata, Signature) {
  std::string problem;
  std::optional<Signature> signature = Signature::parse(kSignature, problem);
  ASSERT_TRUE(signature) << problem;
  ASSERT_EQ(signature->inputs().size(), 6u); // the outputs are not read
  EXPECT_TRUE(signature->isParameter("h.0.ln.weight"));
  EXPECT_EQ(signature->byArgument("p_h_0_ln_weight")->target, "h.0.ln.weight");
  EXPECT_EQ(signature->byTarget("scale")->kind, Signature::Entry::Buffer);
  EXPECT_TRUE(signature->byTarget("scale")->persistent);
  EXPECT_FALSE(signature->byTarget("mask")->persistent);
  EXPECT_EQ(signature->byTarget("lifted_tensor_0")->kind, Signature::Entry::Constant);
  EXPECT_FALSE(signature->byTarget("x"));
}

TEST(TorchMetadata, SignatureRefused) {
  for (const char *text :
       {"", "# inputs\n", "# inputs\nnonsense\n", "# inputs\np: PARAMETER\n", "# inputs\np: PARAMETER target=\n",
        "# inputs\np: PARAMETER target=''\n", "# inputs\np: PARAMETER target='a'\np: PARAMETER target='b'\n",
        "# inputs\np: PARAMETER target='a'\nq: BUFFER target='a' persistent=True\n", "# inputs\n: BUFFER target='a'\n",
        "# inputs\np: parameter target='a'\n"}) {
    std::string problem;
    EXPECT_FALSE(Signature::parse(text, problem)) << text;
  }
}

TEST(TorchMetadata, Call) {
  std::optional<TracedCall> call = parseTracedCall(kCall);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->name, "addmm_1");
  EXPECT_EQ(call->op, "addmm");
  EXPECT_EQ(call->arguments, (std::vector<std::string>{"p_bias", "", "p_w", "", ""}));
  EXPECT_EQ(call->values, (std::vector<std::string>{"p_bias", "a", "b", "p_w", "c"}));
  call = parseTracedCall(
      "%cat : [num_users=1] = call_function[target=torch.ops.aten.cat.default](args = ([%a, %b], 1), kwargs = {})");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->arguments, (std::vector<std::string>{"", ""}));
  call = parseTracedCall("%zeros : [num_users=1] = call_function[target=operator.getitem](args = (), kwargs = {})");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->op, "getitem");
  EXPECT_TRUE(call->arguments.empty());
  EXPECT_FALSE(parseTracedCall(""));
  EXPECT_FALSE(parseTracedCall("%x : [num_users=1] = placeholder[target=x]"));
}

// Every cut and 200,000 texts with up to four bytes changed: any answer will do.
TEST(TorchMetadata, DamagedText) {
  uint32_t state = 1;
  auto random = [&](uint32_t below) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % below;
  };
  const std::string alphabet = "%()[]{},.:'\"# \n=aPARMET_0";
  for (const std::string original : {kSignature, kCall, "['', 'h.0', \"ln\"]"}) {
    size_t understood = 0;
    auto read = [&](const std::string &text) {
      std::string problem;
      understood += Signature::parse(text, problem).has_value();
      if (std::optional<TracedCall> call = parseTracedCall(text)) {
        ++understood;
        EXPECT_LE(call->values.size() + call->arguments.size(), 2 * text.size());
      }
      EXPECT_LE(parsePythonList(text).size(), text.size());
    };
    for (size_t length = 0; length < original.size(); ++length)
      read(original.substr(0, length));
    for (int round = 0; round < 200000 / 3; ++round) {
      std::string text = original;
      for (uint32_t changes = 1 + random(4); changes > 0; --changes)
        text[random(text.size())] = alphabet[random(alphabet.size())];
      read(text);
    }
    EXPECT_EQ(understood > 0, original[0] != '[');
  }
}

} // namespace
