// Programs of ranks that share tensors out, without commands: what loads and saves them needs no more.
#ifndef SCRIMP_TEST_UNIT_RUNTIME_SHAREDWORLD_H
#define SCRIMP_TEST_UNIT_RUNTIME_SHAREDWORLD_H

#include "../../../runtime/lib/common/Ranks.h"
#include "TestProgram.h"
#include "scrimp/runtime/Checkpoint.h"
#include "scrimp/runtime/TensorPart.h"
#include "scrimp/runtime/Weights.h"
#include <thread>

namespace scrimp::runtime {

using namespace program;

/// What ranks share out, as the stages of ZeRO do.
enum Stage { nothing, states, everything };

/// Parameters, one of them tied, with a state of each, in two buckets that are laid out as the compiler does it: gaps
/// between tensors, the whole a multiple of the number of ranks. Beside them what is never shared out.
class SharedWorld {
public:
  SharedWorld(int ranks, Stage stage, const std::string &folder, DType real = DType::f32)
      : ranks(ranks), stage(stage), real(real) {
    table.program_version = programVersion;
    table.model = "shared";
    table.optimizer = "adamw";
    table.alignment = 64;
    table.batch = ranks;
    table.workers = 1;
    table.world = static_cast<uint32_t>(ranks);
    for (bool isState : {false, true}) {
      std::string end = isState ? ".exp_avg" : "";
      bool isShared = ranks > 1 && stage >= (isState ? states : everything);
      TensorRole role = isState ? TensorRole::optimizer_state : TensorRole::parameter;
      InitKind drawn = isState ? InitKind::zeros : InitKind::normal;
      bucket({{"w" + end, {3, 5}, 0, drawn},
              {"b" + end, {7}, 16, isState ? drawn : InitKind::uniform},
              {"stored" + end, {2, 3, 2}, 24, isState ? drawn : InitKind::file},
              {"none" + end, {0, 4}, 36, drawn}},
             40, role, real, isShared);
      bucket({{"wide" + end, {9}, 0, drawn}}, 9, role, DType::f64, isShared);
    }
    table.tensors[0]->aliases = {"tied.w"};
    add("small", {3}, TensorRole::frozen_parameter, real, 0, 0).init = InitKind::ones;
    add("steps", {}, TensorRole::buffer, DType::i64, 0, 0);
    auto train = std::make_unique<GraphT>();
    train->name = "train";
    train->outputs.push_back(std::make_unique<OutputT>());
    train->outputs[0]->name = "loss";
    train->outputs[0]->offset = place(4);
    table.graphs.push_back(std::move(train));
    table.arena_bytes = (table.arena_bytes + 63) / 64 * 64;
    auto carriedBuffer = std::make_unique<CarriedT>();
    carriedBuffer->name = "mask";
    carriedBuffer->dtype = "I16";
    carriedBuffer->shape = {2};
    carriedBuffer->bytes = 4;
    carriedBuffer->weights_offset = 12 * static_cast<uint64_t>(elementBytes(real));
    table.weights_bytes = carriedBuffer->weights_offset + 4;
    table.carried.push_back(std::move(carriedBuffer));
    weightsPath = folder + "/weights";
    std::string trailer(table.weights_bytes, '\1');
    for (int64_t i = 0; i < 12; ++i)
      storeElement(real, trailer.data(), i, static_cast<double>(i) + 0.5);
    writeBytes(weightsPath,
               "executable" + trailer + "SCRIMPW1" + std::string(reinterpret_cast<char *>(&table.weights_bytes), 8));

    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(Program::Pack(builder, &table), ProgramIdentifier());
    packed.resize((builder.GetSize() + 7) / 8);
    memcpy(packed.data(), builder.GetBufferPointer(), builder.GetSize());
    ProgramImage image{reinterpret_cast<const unsigned char *>(packed.data()), builder.GetSize(), nullptr, 0};
    Result<const Program *> verified = verifyProgram(image);
    EXPECT_FALSE(verified.failed()) << verified.status().message();
    program = *verified;
    arenas.assign(static_cast<size_t>(ranks), std::vector<char>(table.arena_bytes));
    for (int rank = 0; rank < ranks; ++rank)
      carried.push_back(*CarriedTensors::inTrailer(program, weightsPath.c_str()));
  }

  /// Does it on a thread for each rank; the messages of those that failed, by rank.
  template <typename Body> std::vector<std::string> onAll(Body body) {
    ThreadWorld world(ranks);
    std::vector<std::string> failures(static_cast<size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        std::unique_ptr<Communicator> communicator = world.communicator(rank);
        Ranks together(*communicator);
        failures[static_cast<size_t>(rank)] = body(rank, arenas[static_cast<size_t>(rank)].data(), together).message();
      });
    for (std::thread &thread : threads)
      thread.join();
    return failures;
  }
  std::vector<std::string> allWell() const { return std::vector<std::string>(static_cast<size_t>(ranks)); }

  std::vector<std::string> save(const std::string &folder, int64_t step = 1, int64_t keep = 0) {
    RunState state;
    state.step = step;
    return onAll([&](int rank, char *arena, Ranks &together) {
      return saveCheckpoint(program, arena, carried[static_cast<size_t>(rank)], state, folder, keep, together);
    });
  }
  std::vector<std::string> load(const std::string &path) {
    return onAll([&](int rank, char *arena, Ranks &) {
      Result<CheckpointOnDisk> found = openCheckpoint(path);
      return found.failed() ? found.status()
                            : loadCheckpoint(program, *found, rank, arena, carried[static_cast<size_t>(rank)]);
    });
  }
  std::vector<std::string> initialize(uint64_t seed) {
    return onAll([&](int rank, char *arena, Ranks &) {
      ThreadPool pool(1);
      return initializeTensors(program, weightsPath.c_str(), InitialTensors::all, seed, rank, arena, pool);
    });
  }

  /// The bytes of each tensor, put together from those of the ranks that have some; those that have all agree.
  std::map<std::string, std::string> values() const {
    std::map<std::string, std::string> values;
    for (const Tensor *tensor : items(program->tensors())) {
      int64_t each = elementBytes(tensor->dtype());
      std::string bytes(static_cast<size_t>(byteCount(tensor)), '\0');
      for (int rank = 0; rank < ranks; ++rank) {
        TensorPart part = partOf(tensor, rank);
        const char *data = arenas[static_cast<size_t>(rank)].data() + part.offset;
        if (rank && !tensor->part_elements()) {
          EXPECT_EQ(bytes.compare(0, bytes.size(), data, bytes.size()), 0) << tensor->name()->str() << rank;
        }
        bytes.replace(static_cast<size_t>(part.begin * each), static_cast<size_t>(part.count * each), data,
                      static_cast<size_t>(part.count * each));
      }
      values[tensor->name()->str()] = bytes;
    }
    return values;
  }
  /// Gives all tensors values that depend on the number, their name and the element alone.
  void fill(uint32_t number) {
    for (const Tensor *tensor : items(program->tensors()))
      for (int rank = 0; rank < ranks; ++rank) {
        TensorPart part = partOf(tensor, rank);
        for (int64_t i = 0; i < part.count; ++i)
          storeElement(tensor->dtype(), arenas[static_cast<size_t>(rank)].data() + part.offset, i,
                       number + 16 * static_cast<double>(part.begin + i) + tensor->name()->size());
      }
  }
  void clear() {
    for (std::vector<char> &arena : arenas)
      std::fill(arena.begin(), arena.end(), '\xee');
  }

  int ranks;
  Stage stage;
  DType real;
  const Program *program = nullptr;
  std::vector<std::vector<char>> arenas;
  std::vector<CarriedTensors> carried;
  std::string weightsPath;

private:
  struct Member {
    std::string name;
    std::vector<int64_t> shape;
    int64_t offset;
    InitKind init;
  };

  uint64_t place(uint64_t bytes) {
    uint64_t offset = (table.arena_bytes + 63) / 64 * 64;
    table.arena_bytes = offset + bytes;
    return offset;
  }
  TensorT &add(const std::string &name, std::vector<int64_t> shape, TensorRole role, DType dtype, uint64_t part,
               uint64_t inBucket) {
    uint64_t elements = 1;
    for (int64_t extent : shape)
      elements *= static_cast<uint64_t>(extent);
    auto tensor = std::make_unique<TensorT>();
    tensor->name = name;
    tensor->shape = std::move(shape);
    tensor->role = role;
    tensor->dtype = dtype;
    tensor->a = 0, tensor->b = 1;
    tensor->part_elements = part;
    tensor->bucket_offset = inBucket;
    if (!part)
      tensor->offset = place(elements * static_cast<uint64_t>(elementBytes(dtype)));
    table.tensors.push_back(std::move(tensor));
    return *table.tensors.back();
  }
  void bucket(std::vector<Member> members, int64_t elements, TensorRole role, DType dtype, bool isShared) {
    auto part = static_cast<uint64_t>((elements + ranks - 1) / ranks);
    uint64_t offset = isShared ? place(part * static_cast<uint64_t>(elementBytes(dtype))) : 0;
    for (Member &member : members) {
      TensorT &tensor = add(member.name, member.shape, role, dtype, isShared ? part : 0,
                            isShared ? static_cast<uint64_t>(member.offset) : 0);
      tensor.init = member.init;
      if (isShared)
        tensor.offset = offset;
    }
  }

  ProgramT table;
  std::vector<uint64_t> packed;
};

} // namespace scrimp::runtime

#endif
