// Real models, trained by the interpreter in fp64 for 20 AdamW steps, against PyTorch's fp64 run: import, autodiff and
// optimizer together, without plan, kernels or runtime.
#include "scrimp/Dialect/Scrimp.h"
#include "scrimp/Eval/Interpreter.h"
#include "scrimp/Import/Onnx.h"
#include "scrimp/Transforms/GraphFunction.h"
#include "scrimp/Transforms/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;
using namespace mlir::scrimp;

namespace {

std::string readFile(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  EXPECT_TRUE(buffer) << path;
  return buffer ? (*buffer)->getBuffer().str() : "";
}

template <typename T> void convert(StringRef bytes, int64_t first, HostTensor &value) {
  for (int64_t i = 0; i < value.size(); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + (first + i) * sizeof(T), sizeof(T));
    if (value.isFloat())
      value.floats()[i] = static_cast<double>(element);
    else
      value.ints()[i] = static_cast<int64_t>(element);
  }
}

/// A .npy file of float32 or int64: its data, and how many elements there are.
struct Npy {
  explicit Npy(const std::string &path) : text(readFile(path)) {
    size_t header = 10 + static_cast<unsigned char>(text[8]) + 256 * static_cast<unsigned char>(text[9]);
    isFloat = StringRef(text).take_front(header).contains("'<f4'");
    bytes = StringRef(text).drop_front(header);
  }
  int64_t size() const { return bytes.size() / (isFloat ? 4 : 8); }
  /// Batch `step` of the file; after the last whole one comes the first.
  HostTensor batch(RankedTensorType type, int64_t step) const {
    HostTensor value(type);
    int64_t first = step % (size() / value.size()) * value.size();
    isFloat ? convert<float>(bytes, first, value) : convert<int64_t>(bytes, first, value);
    return value;
  }

  std::string text;
  bool isFloat;
  StringRef bytes;
};

HostTensor readWeight(const WeightSource &source, ArrayRef<int64_t> shape, MLIRContext &context) {
  HostTensor value(RankedTensorType::get(shape, Float64Type::get(&context)));
  std::vector<char> bytes(source.getLength());
  EXPECT_TRUE(succeeded(readWeightBytes(source, 0, bytes, UnknownLoc::get(&context))));
  StringRef data(bytes.data(), bytes.size());
  source.elementType.isF64() ? convert<double>(data, 0, value) : convert<float>(data, 0, value);
  if (!source.transposed)
    return value;
  HostTensor turned(value.getType());
  int64_t rows = shape[0], columns = shape[1];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      turned.floats()[i * columns + j] = value.floats()[j * rows + i];
  return turned;
}

struct Run {
  const char *name, *folder, *file;
  const char *key; // in reference.json: "fp64", or "fp64_rounded" where the exporter rounds attributes to f32
  bool hasBatch, hasLoss;
  bool raise; // whole layers become one op first
};

std::ostream &operator<<(std::ostream &os, const Run &run) { return os << run.folder << "/" << run.file; }

class Trajectory : public testing::TestWithParam<Run> {
protected:
  /// The imported model as @train, and its arguments before the first step.
  void load(const std::string &folder, const llvm::json::Object &reference) {
    ImportOptions options;
    if (GetParam().hasBatch)
      options.dims["batch"] = *reference.getInteger("batch");
    if (!GetParam().hasLoss)
      options.loss = reference.getString("loss")->str();
    for (auto &[name, file] : *reference.getObject("inputs")) {
      options.dataNames.push_back(StringRef(name).str());
      data.try_emplace(StringRef(name), folder + "/" + file.getAsString()->str());
    }
    FailureOr<ImportedModel> model = importOnnx(folder + "/" + GetParam().file, options, &context);
    ASSERT_TRUE(succeeded(model));
    module = std::move(model->module);
    PassManager passes(&context);
    if (GetParam().raise) {
      passes.addPass(createCanonicalizerPass());
      passes.addPass(createCSEPass());
      passes.addPass(createRaiseIdioms());
    }
    passes.addPass(createDeriveEval());
    passes.addPass(createAutodiff());
    OptimizerOptions adamw;
    adamw.kind = "adamw";
    passes.addPass(createOptimizer(adamw));
    ASSERT_TRUE(succeeded(passes.run(*module)));
    train = module->lookupSymbol<func::FuncOp>("train");
    for (BlockArgument argument : train.getArguments())
      arguments.emplace_back(tensorType(argument));
    forEachMember([&](StringRef name, MemberAttr member, MutableArrayRef<double> elements) {
      auto source = model->weights.find(name);
      if (source == model->weights.end())
        return;
      HostTensor value = readWeight(source->second, member.getShape().asArrayRef(), context);
      llvm::copy(value.floats(), elements.begin());
    });
    for (auto [i, argument] : llvm::enumerate(arguments))
      if (train.getArgAttr(i, ScrimpDialect::kState) && !train.getArgAttr(i, ScrimpDialect::kBucket))
        argument = readWeight(model->weights.lookup(argumentName(train, i)), argument.getShape(), context);
  }

  void forEachMember(function_ref<void(StringRef, MemberAttr, MutableArrayRef<double>)> visit) {
    for (auto [i, argument] : llvm::enumerate(arguments))
      if (auto bucket = train.getArgAttrOfType<BucketAttr>(i, ScrimpDialect::kBucket))
        for (MemberAttr member : bucket.getTensors())
          visit(member.getName(), member, argument.floats().slice(member.getOffset(), member.getNumElements()));
  }

  /// Step `t`, counted from 1; returns loss and gradient norm.
  std::pair<double, double> step(int t) {
    const double lr = 1e-3, beta1 = .9, beta2 = .999, decay = 1e-2;
    llvm::StringMap<double> scalars = {{"one_minus_beta1", 1 - beta1},
                                       {"beta2", beta2},
                                       {"one_minus_beta2", 1 - beta2},
                                       {"eps", 1e-8},
                                       {"decay_factor", 1 - lr * decay},
                                       {"step_size", lr / (1 - std::pow(beta1, t))},
                                       {"sqrt_bias_correction2", std::sqrt(1 - std::pow(beta2, t))}};
    for (auto [i, argument] : llvm::enumerate(arguments)) {
      if (auto scalar = train.getArgAttrOfType<StringAttr>(i, ScrimpDialect::kScalar))
        argument.floats()[0] = scalars.at(scalar.getValue());
      if (train.getArgAttr(i, ScrimpDialect::kInput))
        argument = data.find(argumentName(train, i))->second.batch(argument.getType(), t - 1);
    }
    SmallVector<HostTensor> results;
    EXPECT_TRUE(succeeded(evalFunction(train, arguments, results, Rounding::Exact)));
    for (unsigned i = 0; i < results.size(); ++i)
      if (auto updates = train.getResultAttrOfType<IntegerAttr>(i, ScrimpDialect::kUpdates))
        arguments[updates.getInt()] = results[i];
    return {results[findOutput(train, "loss")].floats()[0], results[findOutput(train, "grad_norm")].floats()[0]};
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  func::FuncOp train;
  SmallVector<HostTensor> arguments;
  llvm::StringMap<Npy> data;
};

TEST_P(Trajectory, FollowsTorchInDouble) {
  std::string folder = std::string(SCRIMP_MODELS "/") + GetParam().folder;
  auto parsed = llvm::json::parse(readFile(folder + "/reference.json"));
  ASSERT_TRUE(static_cast<bool>(parsed));
  const llvm::json::Object &reference = *parsed->getAsObject(), &run = *reference.getObject(GetParam().key);
  load(folder, reference);
  if (HasFatalFailure())
    return;
  for (int t = 1; t <= 20; ++t) {
    double loss = *(*run.getArray("loss"))[t - 1].getAsNumber(),
           norm = *(*run.getArray("grad_norm"))[t - 1].getAsNumber();
    auto [foundLoss, foundNorm] = step(t);
    EXPECT_NEAR(foundLoss / loss, 1, 1e-10) << "loss of step " << t;
    EXPECT_NEAR(foundNorm / norm, 1, 1e-9) << "gradient norm of step " << t;
  }
  forEachMember([&](StringRef name, MemberAttr, MutableArrayRef<double> elements) {
    std::optional<double> expected = run.getObject("weight_norms")->getNumber(name);
    if (!expected)
      return;
    double squares = 0;
    for (double element : elements)
      squares += element * element;
    EXPECT_NEAR(std::sqrt(squares), *expected, 1e-10 * (1 + *expected)) << name.str();
  });
}

Run exported(const char *name, const char *folder, bool hasBatch) {
  return {name, folder, "export.f64.onnx", "fp64", hasBatch, true, false};
}

Run dynamo(const char *name, const char *folder) {
  return {name, folder, "dynamo18.f64.onnx", "fp64_rounded", false, false, false};
}

Run raised(Run run, const char *name) {
  run.name = name;
  run.raise = true;
  return run;
}

INSTANTIATE_TEST_SUITE_P(
    Models, Trajectory,
    testing::Values(exported("mlp", "mlp", true), exported("lenet", "lenet", true), exported("gpt2", "gpt2", true),
                    exported("llama", "llama", true), exported("bert", "bert", true), exported("vit", "vit", true),
                    exported("tied", "cases/tied", false), exported("tied_late", "cases/tied-late", false),
                    exported("frozen", "cases/frozen", false), exported("buffers", "cases/buffers", false),
                    exported("two_layer_norms", "cases/two-layer-norms", false), dynamo("mlp_dynamo", "mlp"),
                    dynamo("lenet_dynamo", "lenet"), dynamo("gpt2_dynamo", "gpt2"), dynamo("llama_dynamo", "llama"),
                    dynamo("bert_dynamo", "bert"), dynamo("vit_dynamo", "vit"),
                    raised(exported("", "gpt2", true), "gpt2_raised"),
                    raised(exported("", "llama", true), "llama_raised"),
                    raised(exported("", "bert", true), "bert_raised"), raised(exported("", "vit", true), "vit_raised"),
                    raised(dynamo("", "gpt2"), "gpt2_dynamo_raised"),
                    raised(dynamo("", "llama"), "llama_dynamo_raised"),
                    raised(dynamo("", "bert"), "bert_dynamo_raised"), raised(dynamo("", "vit"), "vit_dynamo_raised")),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
