#include "scrimp/Driver/CommandLine.h"

#include "scrimp/Analysis/Aliases.h"
#include "scrimp/Driver/Budget.h"
#include "scrimp/Driver/Device.h"
#include "scrimp/Support/Messages.h"
#include "scrimp/Transforms/RematPolicy.h"

#include "llvm/Support/Path.h"

#include <CLI/CLI.hpp>
#include <new>
#include <unistd.h>

using namespace mlir;
using namespace mlir::scrimp;

void mlir::scrimp::addModelFlags(CLI::App &app, CompileOptions &options) {
  app.failure_message([](const CLI::App *app, const CLI::Error &error) {
    return (llvm::sys::path::filename(app->get_name()) + ": error: " + onOneLine(error.what()) + "; see --help\n")
        .str();
  });
  app.add_option("MODEL", options.model, "The model: MODEL.onnx, or MODEL.mlir in the scrimp dialect")->required();
  app.add_option_function<std::vector<std::string>>(
         "--dim",
         [&options](const std::vector<std::string> &bindings) {
           for (const std::string &binding : bindings) {
             size_t equals = binding.find('=');
             int64_t size = 0;
             if (equals == std::string::npos || equals == 0 ||
                 StringRef(binding).drop_front(equals + 1).getAsInteger(10, size) || size <= 0)
               throw CLI::ValidationError("--dim", "expected NAME=SIZE with a positive size, found '" + binding + "'");
             if (!options.import.dims.try_emplace(binding.substr(0, equals), size).second)
               throw CLI::ValidationError("--dim", "'" + binding.substr(0, equals) + "' is given twice");
           }
         },
         "Binds a symbolic dimension: --dim batch=64")
      ->type_name("NAME=SIZE")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--loss", options.import.loss,
                 "The loss when the graph has none: cross_entropy(logits,labels[,ignore_index=-100]), mse(y,target), "
                 "bce_with_logits(y,target); or the name of an output that is one number");
  app.add_option(
         "--trainable", options.import.trainable,
         "Parameters to train: glob patterns over their names; of all that match, also by --frozen, the one with the "
         "most literal characters decides")
      ->type_name("PATTERN");
  app.add_option("--frozen", options.import.frozen,
                 "Parameters to leave alone, likewise: --frozen '*' --trainable '*lora_*' trains the adapters only")
      ->type_name("PATTERN");
  app.add_option("--data", options.import.dataNames,
                 "Inputs that data files will feed; graph inputs without a value that are not named are parameters")
      ->type_name("NAME");
  app.add_flag("--training-mode", options.import.trainingMode,
               "BatchNormalization and Dropout nodes train, whatever mode they were exported in");
  app.add_flag("--follow-links", options.import.followLinks,
               "Weights may lie outside the model's folder, where a symbolic link in it leads (Hugging Face's cache)");
  app.add_option("--init-from", options.initFrom,
                 "First values by name: w.safetensors or model.safetensors.index.json");
  app.add_option_function<std::string>(
         "--init-rename",
         [&options](const std::string &text) {
           if (!options.initRename.parse(text))
             throw CLI::ValidationError("--init-rename",
                                        "expected FROM=TO, one of which may be empty, found '" + text + "'");
         },
         "Names in --init-from's file that begin with FROM begin with TO instead")
      ->type_name("FROM=TO");
  app.add_option_function<std::vector<std::string>>(
         "--precision",
         [&options](const std::vector<std::string> &given) {
           options.precisions = given;
           if (given.size() == 1)
             options.import.precision = given[0];
           else if (llvm::is_contained(given, "fp64"))
             throw CLI::ValidationError("--precision", "fp64 is no choice beside others; give it alone");
         },
         "fp32 or fp64 (all of the model), bf16 or fp16 (activations and their gradients; parameters, their gradients "
         "and statistics stay fp32); default: as the model's parameters are. Several, as in bf16,fp32: what "
         "--memory-budget may choose from")
      ->delimiter(',')
      ->check(CLI::IsMember({"fp32", "fp64", "bf16", "fp16"}))
      ->type_name("PRECISION");
  app.add_option("--keep-fp32", options.keepFp32,
                 "What --precision bf16 or fp16 leaves alone: glob patterns over layers, modules and parameters")
      ->type_name("PATTERN");
  app.add_option(
         "--master", options.master,
         "--precision bf16, fp16: parameters are kept in fp32, or none: in bf16 themselves, with updates that are "
         "rounded by chance; 2 bytes a parameter instead of 6")
      ->check(CLI::IsMember({"fp32", "none"}))
      ->capture_default_str();
  app.add_option("--moments", options.moments, "The optimizer's states: fp32, or bf16, rounded by chance")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  app.add_option("--optimizer", options.optimizer, "adamw, adam or sgd")
      ->check(CLI::IsMember({"adamw", "adam", "sgd"}))
      ->capture_default_str();
  app.add_flag("--momentum", options.momentum, "sgd: keep a momentum buffer (its factor is a run-time flag)");
  app.add_flag("--nesterov", options.nesterov, "sgd: Nesterov momentum");
  app.add_flag("--clip-grad-norm", options.clipGradNorm,
               "Clip by the global norm (its bound is the run-time flag --clip-norm); all gradients are then alive at "
               "once");
  app.add_flag("--skip-nonfinite-grad", options.skipNonfiniteGrad,
               "Updates wait until all gradients are known to be finite, so that --on-nan skip of the executable skips "
               "such a step too; all gradients are then alive at once. Clipping implies it");
  app.add_option(
         "--no-decay", options.noDecay,
         "Parameters without weight decay: glob patterns, or '1d' for biases and norms (rank 0 and 1); default: "
         "none, as PyTorch without groups")
      ->type_name("PATTERN");
  app.add_option(
         "--micro-batches", options.microBatches,
         "Add up the gradients of K parts of the batch, one after the other, before an update: activations take "
         "1/K of the memory, and what is learned stays the same")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 30, "POSITIVE"))
      ->type_name("K");
  app.add_option("--micro-batch-size", options.microBatchSize, "The same by the most samples that a part may have")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 30, "POSITIVE"))
      ->type_name("N");
  app.add_option(
         "--accumulate", options.accumulate,
         "What the gradients of micro-batches are added up in: fp32, or bf16 (half the bytes; a gradient that is "
         "below 1/512 of the sum so far is lost)")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  app.add_option(
         "--batch-stats", options.batchStats,
         "Batch normalization under micro-batches and ranks: whole (it does not split, an error), per-micro-batch "
         "(each part by its own statistics, as a loop in PyTorch would), global (of all ranks, as one process) or "
         "per-rank (as DistributedDataParallel)")
      ->check(CLI::IsMember({"whole", "per-micro-batch", "global", "per-rank"}))
      ->capture_default_str();
  app.add_option(
         "--world", options.world,
         "Ranks that train together, started by mpirun -n N; --dim batch stays the batch of the whole update, of which "
         "each rank has its share")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20, "POSITIVE"))
      ->type_name("N")
      ->capture_default_str();
  app.add_option(
         "--nodes", options.nodes,
         "Machines that the ranks are on, equally many on each: what ranks of different ones exchange is estimated by "
         "--device's network; default: as many as servers of that device take, one for cpu")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20, "POSITIVE"))
      ->type_name("M");
  app.add_option(
         "--zero", options.zero,
         "What ranks share out instead of each keeping all of it: 0 nothing, 1 the optimizer's states, 2 accumulated "
         "gradients too, 3 parameters too; default: 0, or what --memory-budget chooses")
      ->check(CLI::Range(int64_t(0), int64_t(3), "0 to 3"))
      ->type_name("STAGE");
  app.add_option("--sync", options.sync,
                 "When gradients are added up over the ranks: per-step, per-micro-batch (--zero 1 to 3 accumulate a "
                 "rank's part alone then), or auto: per micro-batch from --zero 2 on (the default)")
      ->check(CLI::IsMember({"auto", "per-step", "per-micro-batch"}));
  app.add_option(
         "--unshard", options.unshard,
         "--zero 3: blocks and parameters that are gathered once a step and kept, instead of once for each use: "
         "glob patterns")
      ->type_name("PATTERN");
  app.add_option("--reduce-dtype", options.reduceDtype, "What gradients of fp32 are sent as; sums stay fp32")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
      ->capture_default_str();
  auto addSize = [&app](const char *flag, int64_t &size, std::optional<int64_t> most, const char *what) {
    app.add_option_function<std::string>(
           flag,
           [flag, &size, most](const std::string &text) {
             std::optional<int64_t> bytes = text == "max" ? most : parseMemorySize(text);
             if (!bytes)
               throw CLI::ValidationError(flag, "'" + text + "' is no size; expected 25MiB or the like");
             size = *bytes;
           },
           what)
        ->type_name("SIZE");
  };
  app.add_option(
         "--bucket-layout", options.layout,
         "What a rank's part of the parameters is (--zero 1 and 2): elements, wherever they fall, or whole matrices, "
         "for optimizers that need them")
      ->check(CLI::IsMember({"elements", "matrices"}));
  addSize("--bucket-bytes", options.bucketBytes, /*most=*/std::nullopt,
          "The most bytes of parameters that ranks exchange at once; default: those of a block");
  addSize("--overlap-bytes", options.overlapBytes, kMostOverlapBytes,
          "Bytes by which the peak may rise so that what ranks exchange starts earlier and is waited for later, max: "
          "as many "
          "as that takes; default: none, or what --memory-budget chooses");
  app.add_option("--persist-below", options.persistBelow,
                 "Parameters of fewer elements are not shared out (--zero): every rank keeps them whole")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 40, "POSITIVE"))
      ->type_name("ELEMENTS");
  app.add_option(
         "--chunk", options.chunk,
         "Modules that GLOB matches run in N chunks of their tokens, forward and backward: 'lm_head=8' never has all "
         "logits, 'transformer.h.*.mlp=4' no whole MLP; what is learned stays the same")
      ->type_name("GLOB=N");
  app.add_option_function<std::string>(
         "--remat",
         [&options](const std::string &text) {
           if (llvm::Expected<RematPolicy> policy = RematPolicy::parse(text); !policy)
             throw CLI::ValidationError("--remat", llvm::toString(policy.takeError()));
           options.remat = text;
         },
         "What the backward pass computes again instead of keeping it; the bits are the same. none; selective: norms, "
         "activations and the like, about a third of the memory of a transformer's layers for some 2% of the time; "
         "full: "
         "all of a block but its input, most of the memory for a third of the time; min-cut: as PyTorch's partitioner; "
         "tradeoff=SECONDS_PER_BYTE: the least time at this price of memory; save=GLOB,... or recompute=GLOB,...: by "
         "names of ops, as --report lists them")
      ->type_name("POLICY");
  app.add_option("--block", options.blocks,
                 "Modules that are one block to --remat: glob patterns ('transformer.h.*'); default: the numbered ones")
      ->type_name("PATTERN");
  app.add_option(
         "--memory-budget", options.memoryBudget,
         "Choose micro-batches and rematerialization, where they are not given, so that the process takes at most "
         "that and a step is fastest: 6GiB, 512MiB, 1500MB, or max for what is free here")
      ->type_name("SIZE");
  app.add_option("--device", options.device,
                 "The machine that costs are estimated for: cpu (this one, measured once), " +
                     llvm::join(knownDevices(), ", ") + ", or FILE.json from scrimp-calibrate; default: cpu")
      ->type_name("NAME");
  app.add_option(
         "--march", options.march,
         "The CPU to compile for: native, a name that LLVM knows, or x86-64-v2 for any machine. The executable runs "
         "where its instructions are; one with avx512bf16 multiplies bf16 by these, otherwise in f32")
      ->capture_default_str();
  app.add_option(
         "--target", options.target,
         "What runs the executable: cpu; cuda, NVIDIA's GPUs of compute capability 8.0 and later; or emulated: the "
         "kernels of a CUDA device, run thread by thread on the CPU (slow, for tests)")
      ->check(CLI::IsMember({"cpu", "emulated", "cuda"}))
      ->capture_default_str();
  app.add_flag(
      "--tf32", options.tf32,
      "--target cuda: products of fp32 round their operands to TF32 (10 bits of 23), several times as fast; off "
      "unless given");
  app.add_option("--workers", options.workers, "Most threads of the executable (default: this machine's)")
      ->check(CLI::Range(1, 4096)); // what a program may say
  app.add_flag("!--no-fuse", options.fuse, "One kernel per op, for comparison: the bits are the same");
  app.add_flag("!--no-stream-inputs", options.streamInputs,
               "Keep a batch whole in memory where micro-batches read it, for comparison: the bits are the same");
  app.add_flag("!--no-schedule", options.schedule, "Keep the graph's order, for comparison: the bits are the same");
  app.add_flag("--quiet", options.quiet, "No notes from the importer");
  app.add_option("--report", options.report,
                 "Write what the memory goes to, and what each pass saved: memory.json, or memory.html to look at")
      ->type_name("FILE");
  // A list takes one value each time it is given, so that the model may follow it.
  for (CLI::Option *option : app.get_options())
    option->allow_extra_args(false);
  // As a variable leaves it that was never set: not the same as leaving out the flag.
  for (const char *flag : {"--init-from", "--device", "--report"})
    app.get_option(flag)->check(
        [](const std::string &text) { return text.empty() ? std::string("the name is empty") : std::string(); }, "");
}

/// Nothing here catches std::bad_alloc.
static void outOfMemory() {
  static const char text[] = "scrimp: error: out of memory\n";
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, text, sizeof(text) - 1);
  ::_exit(1);
}

ToolDiagnostics::ToolDiagnostics(MLIRContext &context, StringRef tool) : tool(tool.str()) {
  std::set_new_handler(outOfMemory);
  handler = std::make_unique<ScopedDiagnosticHandler>(&context, [this](Diagnostic &diagnostic) {
    StringRef kind = diagnostic.getSeverity() == DiagnosticSeverity::Error     ? "error"
                     : diagnostic.getSeverity() == DiagnosticSeverity::Warning ? "warning"
                                                                               : "note";
    std::string where = userLocation(diagnostic.getLocation()), text = diagnostic.str();
    if (where.empty() || StringRef(text).contains("'" + where + "'")) // most messages name the node or file themselves
      where.clear();
    else
      where += ": ";
    llvm::errs() << onOneLine(this->tool + ": " + kind.str() + ": " + where + text) << "\n";
    return success();
  });
}
