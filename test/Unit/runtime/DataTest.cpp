// Readers: what each format gives to the arena, and everything malformed.
#include "scrimp/runtime/Data.h"
#include "TestProgram.h"
#include <sys/stat.h>

using namespace scrimp::runtime;
using namespace scrimp::program;

namespace {

/// A program with one input "a" and, if wanted, "b"; an arena in a vector.
struct Inputs {
  TestProgram test;
  std::vector<char> arena;
  std::vector<uint64_t> packed;

  Inputs(DType type, std::vector<int64_t> shape, int batchDim, int count = 1) {
    test.table.inputs.clear();
    for (int i = 0; i < count; ++i) {
      auto input = std::make_unique<InputT>();
      input->name = i ? "b" : "a";
      input->dtype = type;
      input->shape = shape;
      input->batch_dim = batchDim;
      input->offset = static_cast<uint64_t>(512 * i);
      test.table.inputs.push_back(std::move(input));
    }
    arena.assign(test.table.arena_bytes, 0x55);
  }
  InputMemory memory() {
    return [this](const Input *input) { return arena.data() + input->offset(); };
  }
  Result<Dataset> open(const std::vector<std::string> &texts, int tokenBytes = 0) {
    std::vector<DataSpec> specs;
    for (const std::string &text : texts) {
      auto parsed = parseDataSpec(text);
      if (parsed.failed())
        return parsed.status();
      specs.insert(specs.end(), parsed->begin(), parsed->end());
    }
    return Dataset::open(GetProgram(test.image().program), specs, tokenBytes, "--data");
  }
  std::string error(const std::string &file, const std::string &bytes) {
    writeBytes(test.path(file), bytes);
    auto result = open({"a=" + test.path(file)});
    std::string message = result.failed() ? result.status().message() : "";
    for (size_t at; (at = message.find(test.folder + "/")) != std::string::npos;)
      message.erase(at, test.folder.size() + 1);
    return message;
  }
  template <typename T> std::vector<T> values(int64_t count, int input = 0) const {
    std::vector<T> result(static_cast<size_t>(count));
    memcpy(result.data(), arena.data() + 512 * input, static_cast<size_t>(count) * sizeof(T));
    return result;
  }
};

template <typename T> std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

std::string npy(const std::string &descr, const std::string &shape, const std::string &bytes,
                const std::string &order = "False") {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': (" + shape + "), }\n";
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header + bytes;
}

std::string safetensors(const std::string &header, const std::string &bytes) {
  uint64_t length = header.size();
  return std::string(reinterpret_cast<const char *>(&length), 8) + header + bytes;
}

} // namespace

TEST(Data, SamplesLandInTheirSlots) {
  Inputs in(DType::f32, {4, 2}, 0);
  std::vector<double> source = {1, 2, 3, 4, 5, 6};
  writeNpy(in.test.path("a.npy"), "<f8", {3, 2}, source.data(), 48);
  auto data = in.open({"a=" + in.test.path("a.npy")});
  ASSERT_FALSE(data.failed()) << data.status().message();
  EXPECT_EQ(data->samples(), 3);
  ASSERT_FALSE(data->fillSample(in.memory(), 0, 2).failed());
  ASSERT_FALSE(data->fillSample(in.memory(), 1, 0).failed());
  EXPECT_EQ(in.values<float>(4), (std::vector<float>{5, 6, 1, 2}));
}

// The batch is the second dimension: [3, 4, 2] takes samples of [3, 2], scattered.
TEST(Data, ABatchDimensionInsideIsScattered) {
  Inputs in(DType::i64, {3, 4, 2}, 1);
  std::vector<int32_t> source;
  for (int i = 0; i < 12; ++i)
    source.push_back(i);
  writeNpy(in.test.path("a.npy"), "<i4", {2, 3, 2}, source.data(), 48);
  auto data = in.open({"a=" + in.test.path("a.npy")});
  ASSERT_FALSE(data.failed()) << data.status().message();
  for (int64_t slot = 0; slot < 4; ++slot)
    ASSERT_FALSE(data->fillSample(in.memory(), slot, slot % 2).failed());
  EXPECT_EQ(in.values<int64_t>(24),
            (std::vector<int64_t>{0, 1, 6, 7, 0, 1, 6, 7, 2, 3, 8, 9, 2, 3, 8, 9, 4, 5, 10, 11, 4, 5, 10, 11}));
}

TEST(Data, AnInputWithoutABatchIsReadWhole) {
  Inputs in(DType::f64, {2, 2}, -1);
  std::vector<float> source = {1, 2, 3, 4};
  writeNpy(in.test.path("a.npy"), "<f4", {2, 2}, source.data(), 16);
  auto data = in.open({"a=" + in.test.path("a.npy")});
  ASSERT_FALSE(data.failed()) << data.status().message();
  ASSERT_FALSE(data->fillFixed(in.arena.data()).failed());
  EXPECT_EQ(in.values<double>(4), (std::vector<double>{1, 2, 3, 4}));
}

TEST(Data, EveryNpyTypeIsRead) {
  const std::pair<const char *, std::string> files[] = {{"<f2", bytesOf<uint16_t>({0x3c00, 0xc000})},
                                                        {"<f4", bytesOf<float>({1, -2})},
                                                        {"<f8", bytesOf<double>({1, -2})},
                                                        {"|i1", bytesOf<int8_t>({1, -2})},
                                                        {"<i2", bytesOf<int16_t>({1, -2})},
                                                        {"<i4", bytesOf<int32_t>({1, -2})},
                                                        {"<i8", bytesOf<int64_t>({1, -2})}};
  for (auto &[descr, bytes] : files) {
    Inputs in(DType::f32, {4}, 0);
    writeBytes(in.test.path("a.npy"), npy(descr, "2,", bytes));
    auto data = in.open({"a=" + in.test.path("a.npy")});
    ASSERT_FALSE(data.failed()) << data.status().message();
    for (int64_t slot = 0; slot < 2; ++slot)
      ASSERT_FALSE(data->fillSample(in.memory(), slot, slot).failed());
    EXPECT_EQ(in.values<float>(2), (std::vector<float>{1, -2})) << descr;
  }
}

TEST(Data, ValuesThatDoNotFitAreNamed) {
  Inputs in(DType::i8, {4}, 0);
  writeBytes(in.test.path("a.npy"), npy("<i4", "2,", bytesOf<int32_t>({1, 300})));
  auto data = in.open({"a=" + in.test.path("a.npy")});
  ASSERT_FALSE(data.failed());
  EXPECT_EQ(data->fillSample(in.memory(), 0, 1).message(),
            "'" + in.test.path("a.npy") + "': element 1 is 300, which i8 does not hold exactly");
}

// 10 tokens in windows of 3: (10 - 1) / 3 samples, labels one ahead.
TEST(Data, TokenWindows) {
  Inputs in(DType::i64, {4, 3}, 0, 2);
  std::vector<uint16_t> tokens = {0, 1, 2, 3, 4, 5, 6, 7, 8, 65535};
  writeBytes(in.test.path("t.bin"), bytesOf(tokens));
  std::string file = in.test.path("t.bin");
  for (const std::vector<std::string> &texts :
       {std::vector<std::string>{"a=" + file, "b=" + file + ":+1"}, {"a,b=" + file}}) {
    auto data = in.open(texts);
    ASSERT_FALSE(data.failed()) << data.status().message();
    EXPECT_EQ(data->samples(), 3);
    ASSERT_FALSE(data->fillSample(in.memory(), 0, 2).failed());
    EXPECT_EQ(in.values<int64_t>(3), (std::vector<int64_t>{6, 7, 8}));
    EXPECT_EQ(in.values<int64_t>(3, 1), (std::vector<int64_t>{7, 8, 65535}));
  }
  std::vector<uint32_t> wide = {1, 2, 3, 70000};
  writeBytes(in.test.path("t.u32.bin"), bytesOf(wide));
  auto data = in.open({"a,b=" + in.test.path("t.u32.bin")});
  ASSERT_FALSE(data.failed()) << data.status().message();
  ASSERT_FALSE(data->fillSample(in.memory(), 0, 0).failed());
  EXPECT_EQ(in.values<int64_t>(3, 1), (std::vector<int64_t>{2, 3, 70000}));
}

/// llm.c's file of tokens: 256 numbers, then the tokens.
template <typename T> static std::string llmc(int32_t magic, int32_t version, int32_t count, std::vector<T> tokens) {
  std::vector<int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return bytesOf(header) + bytesOf(tokens);
}

TEST(Data, LlmcHeadersAreRead) {
  Inputs in(DType::i64, {4, 3}, 0, 2);
  for (bool wide : {false, true}) {
    std::string bytes = wide ? llmc<uint32_t>(20240801, 7, 8, {9, 1, 2, 3, 4, 5, 70000, 7})
                             : llmc<uint16_t>(20240520, 1, 8, {9, 1, 2, 3, 4, 5, 65535, 7});
    writeBytes(in.test.path("t.bin"), bytes);
    auto data = in.open({"a,b=" + in.test.path("t.bin")});
    ASSERT_FALSE(data.failed()) << data.status().message();
    EXPECT_EQ(data->samples(), 2);
    ASSERT_FALSE(data->fillSample(in.memory(), 0, 0).failed());
    EXPECT_EQ(in.values<int64_t>(3), (std::vector<int64_t>{9, 1, 2}));
    ASSERT_FALSE(data->fillSample(in.memory(), 0, 1).failed());
    EXPECT_EQ(in.values<int64_t>(3, 1), (std::vector<int64_t>{4, 5, wide ? 70000 : 65535}));
    EXPECT_EQ(in.open({"a,b=" + in.test.path("t.bin")}, wide ? 2 : 4).status().message(),
              "--data: --token-bytes is " + std::to_string(wide ? 2 : 4) + ", but '" + in.test.path("t.bin") +
                  "' is a file of llm.c with tokens of " + std::to_string(wide ? 4 : 2) + " bytes; leave the flag out");
  }
  EXPECT_EQ(
      in.error("a.bin", llmc<uint16_t>(20240520, 1, 8, {1, 2, 3})),
      "--data: 'a.bin' is a file of llm.c whose header promises 8 tokens, which makes 1040 bytes, but it has 1030; "
      "it is damaged");
  EXPECT_EQ(in.error("a.bin", llmc<uint16_t>(20240326, 3, 1024, {1, 2, 3})),
            "--data: 'a.bin' is a file of llm.c that holds a model, not tokens");
}

// 2-byte tokens by default, unless they would be halves.
TEST(Data, HalvesOfTokensAreRefused) {
  Inputs in(DType::i64, {4, 3}, 0);
  std::vector<uint32_t> wide(100);
  for (uint32_t i = 0; i < 100; ++i)
    wide[i] = i;
  EXPECT_EQ(in.error("a.bin", bytesOf(wide)),
            "--data: every second token of 'a.bin' would be 0, as in a file of 4-byte tokens; say which it is by "
            "--token-bytes 4 or --token-bytes 2");
  auto four = in.open({"a=" + in.test.path("a.bin")}, 4), two = in.open({"a=" + in.test.path("a.bin")}, 2);
  ASSERT_FALSE(four.failed() || two.failed());
  EXPECT_EQ(four->samples(), 33);
  EXPECT_EQ(two->samples(), 66);
  EXPECT_EQ(in.error("zeros.bin", std::string(800, '\0')), "");
  in.test.table.inputs[0]->valid_end = 65536;
  EXPECT_EQ(in.error("b.bin", bytesOf<uint16_t>({1, 2, 3, 4})), "");
  in.test.table.inputs[0]->valid_end = 65537;
  EXPECT_EQ(in.error("b.bin", bytesOf<uint16_t>({1, 2, 3, 4})),
            "--data: input 'a' takes values up to 65536, more than tokens of 2 bytes hold; say what 'b.bin' has by "
            "--token-bytes 4 or --token-bytes 2");
  EXPECT_FALSE(in.open({"a=" + in.test.path("b.bin")}, 2).failed());
  EXPECT_EQ(in.error("b.u32.bin", bytesOf<uint32_t>({1, 2, 3, 4})), "");
}

TEST(Data, SafetensorsByNameOrAlone) {
  Inputs in(DType::f32, {4}, 0);
  std::string two = safetensors(R"({"z":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                R"("a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                                bytesOf<float>({9, 1, 2}));
  EXPECT_EQ(in.error("a.safetensors", two), "");
  std::string one = safetensors(R"({"z":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", bytesOf<float>({9}));
  EXPECT_EQ(in.error("a.safetensors", one), "");
  two[two.find("\"a\"") + 1] = 'c';
  EXPECT_EQ(in.error("a.safetensors", two), "--data: 'a.safetensors' holds 2 tensors, none of them named 'a'");
}

TEST(Data, MalformedFilesAreRefused) {
  Inputs in(DType::f32, {4}, 0);
  std::string good = npy("<f4", "2,", bytesOf<float>({1, 2}));
  EXPECT_EQ(in.error("a.npy", good), "");
  EXPECT_EQ(in.error("a.npy", ""), "--data: 'a.npy' is no .npy file: it has 0 bytes");
  EXPECT_EQ(in.error("a.npy", "not an array"), "--data: 'a.npy' is no .npy file of version 1 to 3");
  EXPECT_EQ(in.error("a.npy", good.substr(0, 20)),
            "--data: 'a.npy' is truncated: its header has 58 bytes, the file 20");
  EXPECT_EQ(in.error("a.npy", good.substr(0, good.size() - 1)),
            "--data: 'a.npy' is truncated: [2] elements of f32 need 8 bytes, found 7");
  EXPECT_EQ(in.error("a.npy", good + "x"), "--data: 'a.npy' is too long: [2] elements of f32 need 8 bytes, found 9");
  EXPECT_EQ(
      in.error("a.npy", npy(">f4", "2,", "12345678")),
      "--data: 'a.npy' has type '>f4', expected little-endian f2, f4, f8, i1, i2, i4, i8, u1, u2, u4 or b1; convert "
      "it with numpy's astype");
  EXPECT_EQ(in.error("a.npy", npy("<f4", "2,", "12345678", "True")),
            "--data: 'a.npy' is in Fortran order, expected C order; save numpy.ascontiguousarray of it");
  EXPECT_EQ(in.error("a.npy", npy("<f4", "99999999999999999999,", "")), "--data: 'a.npy' has a malformed .npy header");
  EXPECT_EQ(in.error("a.npy", npy("<f4", "2, 2", bytesOf<float>({1, 2, 3, 4}))),
            "--data: 'a.npy' has shape [2, 2], input 'a' (f32 [4]) takes [samples]");
  EXPECT_EQ(in.error("a.npy", npy("<f4", "0,", "")), "--data: 'a.npy' holds no samples");
  EXPECT_EQ(in.error("a.csv", "1,2"), "--data: 'a.csv' is of no known kind, expected .npy, .safetensors or .bin");
  EXPECT_EQ(in.error("a.bin", "1234"), "--data: 'a.bin' holds tokens, but input 'a' (f32 [4]) is not an index");

  EXPECT_EQ(in.error("a.safetensors", "1234"), "--data: 'a.safetensors' is no .safetensors file: it has 4 bytes");
  EXPECT_EQ(in.error("a.safetensors", safetensors("[1,2]", "")),
            "--data: 'a.safetensors' has a malformed .safetensors header");
  EXPECT_EQ(in.error("a.safetensors", safetensors("{\"a\":[[[[", "")),
            "--data: 'a.safetensors' has a malformed .safetensors header");
  std::string truncated = safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "1234");
  EXPECT_EQ(in.error("a.safetensors", truncated),
            "--data: 'a.safetensors' is truncated: tensor 'a' ends at byte 8 of the data, the file has 4");
  std::string wrong = safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234");
  EXPECT_EQ(in.error("a.safetensors", wrong), "--data: 'a.safetensors' has a malformed entry 'a'");
  std::string huge =
      safetensors(R"({"a":{"dtype":"F32","shape":[9223372036854775807,4],"data_offsets":[0,4]}})", "1234");
  EXPECT_EQ(in.error("a.safetensors", huge), "--data: 'a.safetensors' has a malformed entry 'a'");
  std::string type = safetensors(R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", "1234");
  EXPECT_EQ(in.error("a.safetensors", type),
            "--data: tensor 'a' of 'a.safetensors' has type F8_E4M3, which is not supported");
  std::string hole = safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "12345678");
  EXPECT_EQ(in.error("a.safetensors", hole),
            "--data: 'a.safetensors' has tensors that overlap or leave a hole at byte 0 of the data");

  Inputs index(DType::i64, {4}, 0);
  EXPECT_EQ(index.error("a.npy", good), "--data: 'a.npy' holds f32, which does not convert to input 'a' (i64 [4])");
  EXPECT_EQ(index.error("a.bin", "123"),
            "--data: 'a.bin' has 3 bytes, which is no whole number of 2-byte tokens; see --token-bytes");
  EXPECT_EQ(index.error("a.bin", "12"), "--data: 'a.bin' has 1 tokens, a sample of input 'a' (i64 [4]) needs 2");
}

// A pipe would be waited for without end.
TEST(Data, WhatIsNoFileIsRefused) {
  TestProgram test;
  test.writeData(8);
  ASSERT_EQ(mkfifo(test.path("pipe.npy").c_str(), 0600), 0);
  EXPECT_EQ(test.run("--data x={}/pipe.npy --data labels={}/labels.npy"), 1);
  EXPECT_EQ(test.err,
            "train: error: --data x: '" + test.path("pipe.npy") + "' is not a regular file, expected a file\n");
  EXPECT_EQ(test.run("--data x=/dev/zero --data labels={}/labels.npy"), 1);
  EXPECT_EQ(test.err, "train: error: --data x: '/dev/zero' is not a regular file, expected a file\n");
}

TEST(Data, InputsMustHaveAsManySamples) {
  Inputs in(DType::f32, {4}, 0, 2);
  writeBytes(in.test.path("a.npy"), npy("<f4", "2,", bytesOf<float>({1, 2})));
  writeBytes(in.test.path("b.npy"), npy("<f4", "3,", bytesOf<float>({1, 2, 3})));
  auto data = in.open({"a=" + in.test.path("a.npy"), "b=" + in.test.path("b.npy")});
  ASSERT_TRUE(data.failed());
  EXPECT_EQ(data.status().message(),
            "--data: '" + in.test.path("b.npy") + "' holds 3 samples, but '" + in.test.path("a.npy") + "' holds 2");
}
