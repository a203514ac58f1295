// Tensors that ranks share out: first values and checkpoints are the same whatever the number of ranks and whatever is
// shared out, and what is on disk is whole whoever dies.
#include "Commands.h"
#include "SharedWorld.h"
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

using namespace scrimp::runtime;
using namespace scrimp::program;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

class SharedOut : public testing::Test {
protected:
  void SetUp() override {
    char pattern[] = "/tmp/scrimp-sharing-XXXXXX";
    folder = mkdtemp(pattern);
  }
  void TearDown() override { fs::remove_all(folder); }
  std::string folder;

  std::vector<std::string> filesOf(const std::string &path) const {
    std::vector<std::string> names;
    for (auto &entry : fs::directory_iterator(path))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
};

constexpr Stage stages[] = {nothing, states, everything};

} // namespace

// Every element of a tensor is on one rank, where the bucket's layout says.
TEST_F(SharedOut, PartsMakeUpTheTensor) {
  for (int64_t part : {1, 3, 5, 64})
    for (int64_t offset : {0, 1, 4, 5, 11})
      for (int64_t elements : {0, 1, 2, 7, 20}) {
        Sharing sharing{part, offset};
        int64_t next = 0;
        for (int rank = 0; rank < 40; ++rank) {
          ElementRange range = sharing.rangeOf(elements, rank);
          EXPECT_EQ(range.begin, next);
          for (int64_t i = range.begin; i < range.begin + range.count; ++i)
            EXPECT_EQ((offset + i) / part, rank);
          next += range.count;
        }
        EXPECT_EQ(next, elements);
      }
}

TEST_F(SharedOut, FirstValuesAreTheSameInEveryWorld) {
  SharedWorld one(1, nothing, folder);
  ASSERT_EQ(one.initialize(7), one.allWell());
  std::map<std::string, std::string> expected = one.values();
  EXPECT_NE(expected.at("w"), std::string(60, '\0'));
  float stored;
  memcpy(&stored, expected.at("stored").data() + 44, 4);
  EXPECT_EQ(stored, 11.5f);
  for (int ranks : {2, 3, 4, 9})
    for (Stage stage : stages) {
      SharedWorld world(ranks, stage, folder);
      world.clear();
      ASSERT_EQ(world.initialize(7), world.allWell());
      EXPECT_EQ(world.values(), expected) << ranks << " " << stage;
    }
}

// The whole matrix: who saves, who loads, and what either shares out.
TEST_F(SharedOut, EveryWorldLoadsWhatAnyOtherSaved) {
  for (int savers : {1, 2, 3, 4})
    for (Stage saved : stages) {
      SharedWorld from(savers, saved, folder);
      from.fill(1);
      std::string path = folder + "/" + std::to_string(savers) + std::to_string(saved);
      ASSERT_EQ(from.save(path), from.allWell());
      for (int loaders : {1, 2, 3, 4})
        for (Stage loaded : stages) {
          SharedWorld to(loaders, loaded, folder);
          to.clear();
          ASSERT_EQ(to.load(path), to.allWell());
          EXPECT_EQ(to.values(), from.values()) << savers << saved << " " << loaders << loaded;
        }
    }
}

// What no rank shares out is written once, in the form in which one process writes it.
TEST_F(SharedOut, WhatIsWholeIsWrittenOnce) {
  std::map<Stage, std::vector<std::string>> expected = {
      {nothing, {"model.safetensors", "optimizer.safetensors", "state.json"}},
      {states,
       {"model.safetensors", "optimizer-00001-of-00002.safetensors", "optimizer-00002-of-00002.safetensors",
        "state.json"}},
      {everything,
       {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "optimizer-00001-of-00002.safetensors",
        "optimizer-00002-of-00002.safetensors", "state.json"}}};
  SharedWorld one(1, nothing, folder);
  one.fill(3);
  ASSERT_EQ(one.save(folder + "/one"), one.allWell());
  for (Stage stage : stages) {
    SharedWorld two(2, stage, folder);
    two.fill(3);
    std::string path = folder + "/two" + std::to_string(stage);
    ASSERT_EQ(two.save(path), two.allWell());
    EXPECT_EQ(filesOf(path + "/step-000001"), expected[stage]);
    for (const std::string &file : filesOf(folder + "/one/step-000001"))
      if (file != "state.json" && fs::exists(path + "/step-000001/" + file)) {
        EXPECT_EQ(readBytes(path + "/step-000001/" + file), readBytes(folder + "/one/step-000001/" + file)) << stage;
      }
  }
  EXPECT_EQ(json::parse(readBytes(folder + "/one/step-000001/state.json")).dump(),
            json::parse(readBytes(folder + "/two0/step-000001/state.json")).dump());
  // The second rank's file: the elements from the middle of the bucket of 40 on, under their names.
  std::string second = readBytes(folder + "/two2/step-000001/model-00002-of-00002.safetensors");
  json header = json::parse(second.substr(8, *reinterpret_cast<const uint64_t *>(second.data())));
  EXPECT_EQ(header.size(), 4u) << header; // mask is in the first one's
  EXPECT_EQ(header["b"]["shape"], json({3}));
  EXPECT_EQ(header["stored"]["shape"], json({12}));
  EXPECT_EQ(header["wide"]["shape"], json({4}));
}

TEST_F(SharedOut, AnotherPrecisionConverts) {
  SharedWorld from(3, everything, folder);
  from.fill(2);
  ASSERT_EQ(from.save(folder + "/c"), from.allWell());
  for (DType real : {DType::f64, DType::bf16}) {
    SharedWorld expected(1, nothing, folder, real);
    expected.fill(2);
    SharedWorld to(2, everything, folder, real);
    to.clear();
    ASSERT_EQ(to.load(folder + "/c"), to.allWell());
    EXPECT_EQ(to.values(), expected.values());
  }
}

// A file, a checkpoint that any world has saved, or a folder of such: every rank reads what it holds.
TEST_F(SharedOut, InitFromReadsTheRanksPart) {
  auto initialize = [&](SharedWorld &world, const std::string &path) {
    return world.onAll([&](int rank, char *arena, Ranks &) {
      return initializeFrom(world.program, path, {}, rank, arena, world.carried[static_cast<size_t>(rank)]);
    });
  };
  for (int savers : {1, 3})
    for (Stage saved : {nothing, everything}) {
      SharedWorld from(savers, saved, folder);
      from.fill(5);
      std::string path = folder + "/c" + std::to_string(savers) + std::to_string(saved);
      ASSERT_EQ(from.save(path), from.allWell());
      std::map<std::string, std::string> expected = from.values();
      std::vector<std::string> forms = {path, path + "/step-000001"};
      if (savers == 1 || saved == nothing)
        forms.push_back(path + "/step-000001/model.safetensors");
      for (int ranks : {1, 2, 3})
        for (const std::string &form : forms) {
          SharedWorld to(ranks, everything, folder);
          to.clear();
          ASSERT_EQ(initialize(to, form), to.allWell());
          std::map<std::string, std::string> values = to.values();
          for (const char *name : {"w", "b", "stored", "wide", "small", "steps"})
            EXPECT_EQ(values.at(name), expected.at(name)) << name << " " << form;
        }
    }

  // As it comes from elsewhere: files without a state. The optimizer's are not looked at.
  SharedWorld to(2, everything, folder);
  fs::create_directory(folder + "/hub");
  fs::copy(folder + "/c10/step-000001/model.safetensors", folder + "/hub/model.safetensors");
  ASSERT_EQ(initialize(to, folder + "/hub"), to.allWell());

  SharedWorld one(1, nothing, folder);
  std::string shared = folder + "/c3" + std::to_string(everything);
  ASSERT_TRUE(fs::remove(shared + "/step-000001/optimizer-00002-of-00003.safetensors"));
  ASSERT_EQ(initialize(one, shared), one.allWell());

  std::string damaged = shared + "/step-000001/model-00002-of-00003.safetensors", bytes = readBytes(damaged);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  writeBytes(damaged, bytes);
  EXPECT_EQ(initialize(one, shared).front().substr(0, damaged.size() + 27),
            "--init-from: '" + damaged + "' is damaged:");
  fs::create_directory(folder + "/link");
  fs::create_symlink("nowhere", folder + "/link/model.safetensors");
  EXPECT_EQ(initialize(one, folder + "/link").front(),
            "--init-from: cannot open '" + folder + "/link/model.safetensors': No such file or directory");
  fs::create_directory(folder + "/empty");
  EXPECT_EQ(initialize(one, folder + "/empty").front(), "--init-from: '" + folder +
                                                            "/empty' holds no checkpoint: there is "
                                                            "neither state.json nor latest");
}

TEST_F(SharedOut, DamageIsRefusedByTheNameOfTheFile) {
  SharedWorld from(3, everything, folder);
  from.fill(1);
  ASSERT_EQ(from.save(folder + "/c"), from.allWell());
  std::string path = folder + "/c/step-000001/";
  auto isRefused = [&](int loaders, const std::string &said) {
    SharedWorld to(loaders, states, folder);
    bool isNamed = false;
    for (const std::string &failure : to.load(folder + "/c"))
      isNamed |= failure.find(said) != std::string::npos;
    EXPECT_TRUE(isNamed) << said;
  };
  for (const std::string &file : filesOf(path)) {
    std::string whole = readBytes(path + file);
    for (size_t at : {size_t{3}, whole.size() / 2, whole.size() - 2}) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ 4);
      writeBytes(path + file, flipped);
      for (int loaders : {1, 2})
        isRefused(loaders, "'" + path + file + "' ");
    }
    writeBytes(path + file, whole.substr(0, whole.size() - 2));
    isRefused(2, "'" + path + file + (file == "state.json" ? "' is damaged" : "' is truncated: it has "));
    fs::remove(path + file);
    isRefused(2, "cannot open '" + path + file + "'");
    writeBytes(path + file, whole);
  }
  SharedWorld to(2, states, folder);
  EXPECT_EQ(to.load(folder + "/c"), to.allWell());
}

// One rank's file cannot be finished: nobody has saved, the one before is there, and nothing else.
TEST_F(SharedOut, AFailureOnOneRankLeavesTheOneBefore) {
  SharedWorld world(3, everything, folder);
  world.fill(1);
  ASSERT_EQ(world.save(folder + "/c", 1), world.allWell());
  std::map<std::string, std::string> before = world.values();
  world.fill(2);
  RunState state;
  state.step = 2;
  std::vector<std::string> failures = world.onAll([&](int rank, char *arena, Ranks &together) {
    if (rank == 1) { // the first thing that all agree on is whether there is a folder
      (void)together.agree(Status::error("the disk is gone"));
      return Status::error("as told");
    }
    return saveCheckpoint(world.program, arena, world.carried[0], state, folder + "/c", 0, together);
  });
  for (int rank : {0, 2})
    EXPECT_EQ(failures[static_cast<size_t>(rank)],
              "checkpoint of step 2 was not saved: rank 1: the disk is gone; earlier checkpoints are intact");
  EXPECT_EQ(filesOf(folder + "/c"), (std::vector<std::string>{"latest", "step-000001"}));
  SharedWorld to(2, everything, folder);
  ASSERT_EQ(to.load(folder + "/c"), to.allWell());
  EXPECT_EQ(to.values(), before);
}

// All ranks are killed at some moment of saving again and again: there is always a whole checkpoint, of one step.
TEST_F(SharedOut, KilledWhileSaving) {
  std::mt19937 random(4);
  for (int round = 0; round < 8; ++round) {
    fs::remove_all(folder + "/c");
    SharedWorld world(3, everything, folder);
    world.fill(1);
    ASSERT_EQ(world.save(folder + "/c", 1), world.allWell());
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (!child) {
      for (int64_t step = 2;; ++step) {
        world.fill(static_cast<uint32_t>(step));
        world.save(folder + "/c", step, /*keep=*/2);
      }
    }
    usleep(1000 + random() % 60000);
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    Result<CheckpointOnDisk> found = openCheckpoint(folder + "/c");
    ASSERT_FALSE(found.failed()) << found.status().message();
    SharedWorld to(2, states, folder), expected(1, nothing, folder);
    ASSERT_EQ(to.load(folder + "/c"), to.allWell());
    expected.fill(static_cast<uint32_t>(found->state.step));
    EXPECT_EQ(to.values(), expected.values());
    File lock;
    ASSERT_FALSE(prepareCheckpointFolder(folder + "/c", lock).failed());
    for (const std::string &name : filesOf(folder + "/c"))
      EXPECT_NE(name.substr(0, 6), ".tmp-s") << name;
  }
}

// A rank that dies while the others save: they end, and what was saved stays.
TEST_F(SharedOut, ARankThatDiesLeavesTheOneBefore) {
  SharedWorld world(3, everything, folder);
  world.fill(1);
  ASSERT_EQ(world.save(folder + "/c", 1), world.allWell());
  RunState state;
  state.step = 2;
  ThreadWorld threads(3);
  std::vector<std::thread> ranks;
  std::vector<Status> results(3);
  for (int rank = 0; rank < 3; ++rank)
    ranks.emplace_back([&, rank] {
      std::unique_ptr<Communicator> communicator = threads.communicator(rank);
      Ranks together(*communicator);
      if (rank == 2) {
        (void)together.agree(Status::ok());
        return communicator->abort("rank 2 died");
      }
      auto index = static_cast<size_t>(rank);
      results[index] = saveCheckpoint(world.program, world.arenas[index].data(), world.carried[index], state,
                                      folder + "/c", 0, together);
    });
  for (std::thread &rank : ranks)
    rank.join();
  for (size_t rank : {0u, 1u})
    EXPECT_EQ(results[rank].message(),
              "checkpoint of step 2 was not saved: rank 2 died; earlier checkpoints are intact");
  Result<CheckpointOnDisk> found = openCheckpoint(folder + "/c");
  ASSERT_FALSE(found.failed());
  EXPECT_EQ(found->state.step, 1);
}

// A run whose ranks share the states out learns what it learns without, to the bit, and either goes on with what the
// other saved.
TEST_F(SharedOut, RunsGoOnWithEachOthersCheckpoints) {
  const std::string data = "--data x={}/x.npy labels={}/labels.npy --threads 1 --steps 9 --save-every 4 ";
  for (int ranks : {2, 4}) {
    TestProgram whole(ranks), shared(ranks);
    shared.shareOutStates();
    std::vector<int> allWell(static_cast<size_t>(ranks));
    for (TestProgram *test : {&whole, &shared}) {
      test->writeData(10);
      ASSERT_EQ(test->runRanks(data + "--save {}/c"), allWell) << test->err;
    }
    for (auto [test, other] : {std::pair(&whole, &shared), std::pair(&shared, &whole)})
      ASSERT_EQ(test->runRanks(data + "--save {}/r --resume " + other->path("c/step-000004")), allWell) << test->err;
    EXPECT_TRUE(fs::exists(shared.path(format("c/step-000009/optimizer-00002-of-0000%d.safetensors", ranks))));
    EXPECT_TRUE(fs::exists(shared.path("c/step-000009/model.safetensors")));
    for (const std::string &path : {shared.path("c"), shared.path("r"), whole.path("r")}) {
      std::string text;
      Result<bool> areSame = diff(whole.path("c"), path, text);
      EXPECT_FALSE(areSame.failed()) << areSame.status().message();
      EXPECT_TRUE(*areSame) << text;
    }
  }
}

TEST_F(SharedOut, PartsThatDoNotFitAreRefused) {
  auto fails = [](auto change, const std::string &message, int ranks = 2) {
    TestProgram test(ranks);
    if (ranks > 1)
      test.shareOutStates();
    change(test.table);
    EXPECT_EQ(test.run("--steps 1"), 1);
    EXPECT_EQ(test.err, "train: error: invalid program: " + message + "; recompile the model\n");
  };
  auto state = [](ProgramT &table) -> TensorT & { return *table.tensors[6]; };
  const std::string outside = "tensor 'w.exp_avg' lies outside of what the ranks have of its bucket";
  fails([&](ProgramT &table) { state(table).bucket_offset = 1; }, outside);
  fails([&](ProgramT &table) { state(table).bucket_offset = UINT64_MAX; }, outside);
  fails([&](ProgramT &table) { state(table).shape = {INT64_MAX, INT64_MAX}; }, outside);
  for (uint64_t part : {uint64_t{1} << 40, UINT64_MAX})
    fails([&](ProgramT &table) { state(table).part_elements = part; }, "tensor 'w.exp_avg' lies outside the arena");
  fails([&](ProgramT &table) { state(table).part_elements = 4; }, "tensor 'w.exp_avg' is shared out to one rank", 1);
}

// scrimp-checkpoint: the same file from whoever saved, and what differs.
TEST_F(SharedOut, ToolReadsEveryForm) {
  SharedWorld one(1, nothing, folder);
  one.fill(1);
  ASSERT_EQ(one.save(folder + "/one"), one.allWell());
  std::string text;
  for (Stage stage : stages) {
    SharedWorld three(3, stage, folder);
    three.fill(1);
    std::string path = folder + "/three" + std::to_string(stage);
    ASSERT_EQ(three.save(path), three.allWell());
    for (bool ofStates : {false, true}) {
      Status status = exportTensors(path, folder + "/w.safetensors", ofStates);
      ASSERT_FALSE(status.failed()) << status.message();
      const char *file = ofStates ? "optimizer.safetensors" : "model.safetensors";
      TensorSource exported = *TensorSource::open(folder + "/w.safetensors");
      TensorSource expected = *TensorSource::open(folder + "/one/step-000001/" + file);
      text.clear();
      EXPECT_TRUE(*diff(folder + "/w.safetensors", expected.model.file()->path(), text)) << text;
      EXPECT_EQ(exported.model.tensors().size(), ofStates ? 5u : 9u);
    }
    text.clear();
    EXPECT_TRUE(*diff(path, folder + "/one", text)) << text;
    EXPECT_EQ(text, "14 tensors are the same\n");
  }
  EXPECT_EQ(filesOf(folder),
            (std::vector<std::string>{"one", "three0", "three1", "three2", "w.safetensors", "weights"}));

  SharedWorld two(2, everything, folder);
  two.fill(1);
  storeElement(DType::f32, two.arenas[1].data() + partOf((*two.program->tensors())[1], 1).offset, 2, -3);
  ASSERT_EQ(two.save(folder + "/two", 5), two.allWell());
  text.clear();
  EXPECT_FALSE(*diff(folder + "/one", folder + "/two", text));
  // b lies at 16 in the bucket of 40, so rank 1 has it from element 4 on; the sixth is 1 + 16 * 6 + 1.
  EXPECT_EQ(text, "b: 1 of 7 elements differ, most element 6: 98 and -3\nstep: 1 and 5\n");

  text.clear();
  ASSERT_FALSE(inspect(folder + "/two", text).failed());
  for (const char *line :
       {"/two/step-000005: step 5, 0 updates by adamw, 0 samples, shared out to 2 ranks\n",
        "model      mask: i16 [2]\n", "model      steps: i64 []\n", "model      tied.w: f32 [3, 5], on rank 0\n",
        "model      b: f32 [7], on ranks 0 to 1\n", "optimizer  stored.exp_avg: f32 [2, 3, 2], on rank 1\n",
        "optimizer  5 tensors, 208 bytes\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  text.clear();
  ASSERT_FALSE(inspect(folder + "/w.safetensors", text).failed());
  EXPECT_EQ(text.find("model      b.exp_avg: f32 [7]\n"), 0u) << text;

  std::string damaged = folder + "/two/step-000005/model-00002-of-00002.safetensors", bytes = readBytes(damaged);
  bytes[bytes.size() - 1] ^= 1;
  writeBytes(damaged, bytes);
  EXPECT_EQ(exportTensors(folder + "/two", folder + "/x", false).message().substr(0, damaged.size() + 13),
            "'" + damaged + "' is damaged");
  EXPECT_FALSE(fs::exists(folder + "/x"));
  EXPECT_EQ(exportTensors(folder + "/w.safetensors", folder + "/x", true).message(),
            "'" + folder + "/w.safetensors' is no checkpoint: it has no states of an optimizer");
}
