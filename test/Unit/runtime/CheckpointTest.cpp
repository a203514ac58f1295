// Checkpoints: what they hold, how few remain, and everything that is refused.
#include "TestProgram.h"
#include "scrimp/runtime/Checkpoint.h"
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

using namespace scrimp::runtime;
using namespace scrimp::program;
using nlohmann::json;
namespace fs = std::filesystem;

static const std::string data = "--data x={}/x.npy --data labels={}/labels.npy ";

static json headerOf(const std::string &text) {
  uint64_t length;
  memcpy(&length, text.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  return json::parse(text.substr(8, length));
}

TEST(Checkpoint, HoldsWhatItShould) {
  TestProgram test;
  test.writeData(8);
  ASSERT_EQ(test.run(data + "--steps 3 --save {}/c"), 0) << test.err;
  std::string model = readBytes(test.path("c/step-000003/model.safetensors"));
  json header = headerOf(model);
  // Both names of the tied tensor, frozen parameters and buffers; no constants, no optimizer state.
  std::vector<std::string> names;
  for (auto &[name, entry] : header.items())
    names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"__metadata__", "empty", "flag", "frozen", "steps_seen", "tied.w", "w"}));
  EXPECT_EQ(header["empty"]["shape"], json({0, 5}));
  EXPECT_EQ(header["steps_seen"]["dtype"], "I64");
  EXPECT_EQ(header["flag"]["dtype"], "BOOL");
  const char *start = model.data() + 8 + *reinterpret_cast<const uint64_t *>(model.data());
  auto at = [&](const char *name) { return start + header[name]["data_offsets"][0].get<uint64_t>(); };
  EXPECT_EQ(memcmp(at("w"), at("tied.w"), 16), 0);
  int64_t steps;
  memcpy(&steps, at("steps_seen"), 8);
  EXPECT_EQ(steps, 3);
  json optimizer = headerOf(readBytes(test.path("c/step-000003/optimizer.safetensors")));
  EXPECT_TRUE(optimizer.contains("w.exp_avg") && optimizer.contains("w.exp_avg_sq"));
  EXPECT_EQ(optimizer.size(), 3u);
  json state = json::parse(readBytes(test.path("c/step-000003/state.json")))["state"];
  EXPECT_EQ(state["step"], 3);
  EXPECT_EQ(state["position"], 12);
  EXPECT_EQ(state["epoch"], 1);
  EXPECT_EQ(state["fingerprint"], "0000000000001234");
}

TEST(Checkpoint, KeepsTheNewest) {
  TestProgram test;
  test.writeData(8);
  ASSERT_EQ(test.run(data + "--steps 7 --save {}/c --save-every 2 --keep 2"), 0) << test.err;
  std::vector<std::string> names;
  for (auto &entry : fs::directory_iterator(test.path("c")))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"latest", "step-000006", "step-000007"}));
}

// Two runs would write into one another's files: the second is refused as long as the first holds the folder.
TEST(Checkpoint, OneRunAFolder) {
  TestProgram test;
  test.writeData(8);
  {
    File held;
    ASSERT_FALSE(prepareCheckpointFolder(test.path("c"), held).failed());
    EXPECT_EQ(test.run(data + "--steps 2 --save {}/c"), 1);
    EXPECT_EQ(test.err, "train: error: --save: another run is saving to '" + test.path("c") +
                            "'; give each run its own folder\n");
  }
  EXPECT_TRUE(fs::is_empty(test.path("c")));
  EXPECT_EQ(test.run(data + "--steps 2 --save {}/c"), 0) << test.err;
}

// A fresh run into a folder of checkpoints replaces those of the same steps; nothing else is left.
TEST(Checkpoint, ReplacesWhatIsThere) {
  TestProgram test;
  test.writeData(8);
  ASSERT_EQ(test.run(data + "--steps 2 --save {}/c --save-every 1"), 0) << test.err;
  std::string before = readBytes(test.path("c/step-000002/model.safetensors"));
  ASSERT_EQ(test.run(data + "--steps 2 --lr 0.5 --save {}/c --save-every 1"), 0) << test.err;
  EXPECT_NE(readBytes(test.path("c/step-000002/model.safetensors")), before);
  std::vector<std::string> names;
  for (auto &entry : fs::directory_iterator(test.path("c")))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"latest", "step-000001", "step-000002"}));
}

TEST(Checkpoint, DamageIsRefusedByName) {
  TestProgram test;
  test.writeData(8);
  ASSERT_EQ(test.run(data + "--steps 3 --save {}/c"), 0) << test.err;
  std::string folder = test.path("c/step-000003/");
  for (const char *name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    std::string whole = readBytes(folder + name);
    for (size_t at = 0; at < whole.size(); at += 13) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ 4);
      writeBytes(folder + name, flipped);
      ASSERT_EQ(test.run(data + "--steps 4 --resume {}/c"), 1) << name << " " << at;
      ASSERT_NE(test.err.find(folder + name), std::string::npos) << test.err;
    }
    writeBytes(folder + name, whole.substr(0, whole.size() - 2));
    ASSERT_EQ(test.run(data + "--steps 4 --resume {}/c"), 1);
    std::string said = name == std::string("state.json") ? "" : "' is truncated: it has ";
    if (!said.empty()) {
      EXPECT_NE(test.err.find(folder + name + said), std::string::npos) << test.err;
    }
    fs::remove(folder + name);
    ASSERT_EQ(test.run(data + "--steps 4 --resume {}/c"), 1);
    writeBytes(folder + name, whole);
  }
  EXPECT_EQ(test.run(data + "--steps 4 --resume {}/c"), 0) << test.err;
}

// Trap 43: a checkpoint of another model names the first tensor that differs.
TEST(Checkpoint, AnotherModelIsRefusedByTensor) {
  TestProgram test;
  test.writeData(8);
  ASSERT_EQ(test.run(data + "--steps 3 --save {}/c"), 0) << test.err;
  std::string model = test.path("c/step-000003/model.safetensors");
  auto fails = [&](const std::string &message) {
    EXPECT_EQ(test.run(data + "--steps 4 --resume {}/c"), 1);
    EXPECT_EQ(test.err, "train: error: --resume: '" + model + "' is of another model: " + message + "\n");
  };
  test.table.tensors[1]->shape = {3, 1};
  fails("tensor 'frozen' is f32 [3], expected f32 [3, 1]");
  test.table.tensors[1]->shape = {3};
  test.table.tensors[1]->name = "other";
  fails("it lacks tensor 'other' (f32 [3])");
  test.table.tensors[1]->role = TensorRole::constant;
  fails("it has tensor 'frozen' (f32 [3]), which this one does not");
}

// The limit stands for a full disk: the checkpoint of step 2 fails, that of step 1 stays, nothing else is left.
TEST(Checkpoint, FullDiskLeavesTheOldOneIntact) {
  TestProgram test;
  test.writeData(8);
  static rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_IGN);
  test.hooks.end = [](void *, int64_t step) {
    if (step != 2)
      return;
    rlimit small = before;
    small.rlim_cur = 420; // below the header of model.safetensors
    setrlimit(RLIMIT_FSIZE, &small);
  };
  EXPECT_EQ(test.run(data + "--steps 5 --save {}/c --save-every 1"), 1);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(test.err, "train: error: --save: checkpoint of step 2 was not saved: cannot write '" +
                          test.path("c/.tmp-step-000002/model.safetensors") +
                          "': File too large; earlier checkpoints are intact\n");
  std::vector<std::string> names;
  for (auto &entry : fs::directory_iterator(test.path("c")))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"latest", "step-000001"}));
  test.hooks.end = nullptr;
  EXPECT_EQ(test.run(data + "--steps 3 --resume {}/c"), 0) << test.err;
}

TEST(Checkpoint, WeightsComeFromATrailer) {
  TestProgram test;
  test.writeData(8);
  test.table.tensors[0]->init = InitKind::file;
  test.table.tensors[0]->weights_offset = 4;
  test.table.weights_bytes = 20;
  test.weightsPath = test.path("exe");
  float weights[5] = {9, 1, 2, 3, 4};
  uint64_t length = 20;
  std::string file = "machine code" + std::string(reinterpret_cast<char *>(weights), 20) + "SCRIMPW1" +
                     std::string(reinterpret_cast<char *>(&length), 8);
  writeBytes(test.weightsPath, file);
  ASSERT_EQ(test.run(data + "--steps 0 --save {}/c"), 0) << test.err;
  std::string model = readBytes(test.path("c/step-000000/model.safetensors"));
  uint64_t start = 8 + *reinterpret_cast<const uint64_t *>(model.data());
  EXPECT_EQ(memcmp(model.data() + start + headerOf(model)["w"]["data_offsets"][0].get<uint64_t>(), weights + 1, 16), 0);
  writeBytes(test.weightsPath, file.substr(0, file.size() - 16));
  EXPECT_EQ(test.run(data + "--steps 0"), 1);
  EXPECT_EQ(test.err,
            "train: error: the initial weights at the end of the executable are missing or truncated: found 0 "
            "bytes, expected 20; copy the executable whole (strip removes them)\n");
}

TEST(Checkpoint, InitFromTakesWeightsByName) {
  TestProgram test;
  test.writeData(8);
  ASSERT_EQ(test.run(data + "--steps 3 --save {}/a"), 0) << test.err;
  std::string model = test.path("a/step-000003/model.safetensors");
  ASSERT_EQ(test.run(data + "--steps 0 --init-from " + model + " --save {}/b"), 0) << test.err;
  EXPECT_EQ(readBytes(model), readBytes(test.path("b/step-000000/model.safetensors")));
  // The same through an index of shards.
  writeBytes(test.path("a/step-000003/model.safetensors.index.json"),
             R"({"weight_map": {"w": "model.safetensors", "frozen": "model.safetensors"}})");
  ASSERT_EQ(test.run(data + "--steps 0 --init-from " + model + ".index.json --save {}/d"), 0) << test.err;
  EXPECT_EQ(readBytes(model), readBytes(test.path("d/step-000000/model.safetensors")));
  writeBytes(test.path("escape.index.json"), R"({"weight_map": {"w": "../model.safetensors"}})");
  EXPECT_EQ(test.run(data + "--init-from {}/escape.index.json"), 1);
  EXPECT_EQ(test.err, "train: error: --init-from: '" + test.path("escape.index.json") +
                          "' places tensor 'w' outside its folder\n");
  test.table.tensors[1]->name = "other";
  EXPECT_EQ(test.run(data + "--init-from " + model), 1);
  EXPECT_EQ(test.err, "train: error: --init-from: '" + model + "' lacks 'other'\n");
  test.table.tensors[1]->role = TensorRole::constant;
  EXPECT_EQ(test.run(data + "--init-from " + model), 1);
  EXPECT_EQ(test.err, "train: error: --init-from: '" + model + "' has 'frozen', which the model does not\n");
}
