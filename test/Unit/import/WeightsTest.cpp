// Safetensors files as weight sources: where the bytes lie, shards, and every way in which a file can be wrong.
#include "scrimp/Import/Weights.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::scrimp;

namespace {

class Weights : public ::testing::Test {
protected:
  Weights()
      : handler(&context, [&](Diagnostic &diagnostic) {
          message = diagnostic.str();
          return success();
        }) {
    SmallString<128> path;
    EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("scrimp-weights", path));
    folder = path.str().str();
  }
  ~Weights() override { llvm::sys::fs::remove_directories(folder); }

  std::string write(StringRef name, StringRef bytes) {
    std::string path = folder + "/" + name.str();
    std::error_code code;
    llvm::raw_fd_ostream(path, code) << bytes;
    return path;
  }
  /// A file with `header` and `data` behind it.
  std::string writeTensors(StringRef name, StringRef header, StringRef data) {
    std::string bytes(8, 0);
    for (int i = 0; i < 8; ++i)
      bytes[i] = static_cast<char>(header.size() >> (8 * i));
    return write(name, bytes + header.str() + data.str());
  }
  /// The message without the folder.
  std::string reject(const std::string &path) {
    message.clear();
    EXPECT_TRUE(failed(openSafetensors(path, &context)));
    std::string text = message;
    for (size_t at; (at = text.find(folder + "/")) != std::string::npos;)
      text.erase(at, folder.size() + 1);
    return text;
  }

  MLIRContext context;
  std::string message, folder;
  ScopedDiagnosticHandler handler;
};

const char kTwo[] = R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                    R"("b":{"dtype":"I64","shape":[],"data_offsets":[8,16]}})";

TEST_F(Weights, FindsTensors) {
  std::string path = writeTensors("w.safetensors", kTwo, "aaaabbbbIIIIIIII");
  FailureOr<llvm::StringMap<WeightSource>> tensors = openSafetensors(path, &context);
  ASSERT_TRUE(succeeded(tensors)) << message;
  ASSERT_EQ(tensors->size(), 2u);
  WeightSource &a = (*tensors)["a"];
  EXPECT_TRUE(a.elementType.isF32());
  EXPECT_EQ(a.shape, SmallVector<int64_t>{2});
  char piece[4];
  ASSERT_TRUE(succeeded(readWeightBytes(a, 4, piece, UnknownLoc::get(&context))));
  EXPECT_EQ(StringRef(piece, 4), "bbbb");
  EXPECT_TRUE(failed(readWeightBytes(a, 6, piece, UnknownLoc::get(&context))));
  EXPECT_EQ(message, "asked for bytes 6 to 10 of a weight of 8");
  EXPECT_TRUE((*tensors)["b"].shape.empty());
}

TEST_F(Weights, FindsShards) {
  writeTensors("one.safetensors", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "aaaa");
  writeTensors("two.safetensors", R"({"b":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}})", "bb");
  std::string index =
      write("model.safetensors.index.json", R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  FailureOr<llvm::StringMap<WeightSource>> tensors = openSafetensors(index, &context);
  ASSERT_TRUE(succeeded(tensors)) << message;
  EXPECT_EQ((*tensors)["b"].path, folder + "/two.safetensors");
  EXPECT_TRUE((*tensors)["b"].elementType.isBF16());
  EXPECT_EQ(reject(write("lost.json", R"({"weight_map":{"c":"one.safetensors"}})")),
            "'lost.json' places 'c' in 'one.safetensors', which does not hold it");
  EXPECT_EQ(reject(write("above.json", R"({"weight_map":{"c":"../one.safetensors"}})")),
            "'above.json' places 'c' in '../one.safetensors', which is not a file beside it");
  EXPECT_EQ(reject(write("other.json", "[]")),
            "'other.json' has no weight_map; expected a model.safetensors.index.json");
}

TEST_F(Weights, RejectsDamage) {
  EXPECT_EQ(reject(folder + "/none"), "'none' does not exist");
  EXPECT_EQ(reject(write("short", "abc")), "'short' has 3 bytes; it is not a safetensors file, or is cut off");
  EXPECT_EQ(
      reject(write("text", "this is no header, surely")),
      "'text' announces a header of 2338328219631577204 bytes but has 25; it is not a safetensors file, or is cut off");
  EXPECT_EQ(reject(writeTensors("json", "{\"a\":", "")),
            "'json' has a header that is not a JSON object; it is not a safetensors file, or is damaged");
  EXPECT_EQ(reject(writeTensors("cut", kTwo, "aaaabbbbIIII")),
            "'cut' places the tensor 'b' (8 bytes) at 8 to 16 of 12 bytes of data; it is cut off or damaged");
  EXPECT_EQ(reject(writeTensors("size", R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "aaaabbbb")),
            "'size' places the tensor 'a' (12 bytes) at 0 to 8 of 8 bytes of data; it is cut off or damaged");
  EXPECT_EQ(
      reject(writeTensors("huge", R"({"a":{"dtype":"F32","shape":[1099511627776,1099511627776],"data_offsets":[0,8]}})",
                          "aaaabbbb")),
      "'huge' gives the tensor 'a' an impossible shape");
  EXPECT_EQ(reject(writeTensors("over",
                                R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                                "aaaabbbb")),
            "'over' has tensors that overlap at byte 4 of the data; it is damaged");
}

TEST_F(Weights, RejectsRepeatedNames) {
  // Also where the two are written differently; quotes and braces inside of names are no structure.
  EXPECT_EQ(reject(writeTensors("twice",
                                R"({"a{\\\"":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                R"("\u0061{\\\"" :{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                                "aaaabbbb")),
            "'twice' holds 'a{\\\"' twice; it is damaged, write it again");
  EXPECT_EQ(reject(write("twice.json", R"({"weight_map":{"a":"one.safetensors","a":"two.safetensors"}})")),
            "'twice.json' holds 'a' twice; it is damaged, write it again");
}

} // namespace
