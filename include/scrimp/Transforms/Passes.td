//===- Passes.td - the graph passes --------------------------------------------------------------------------------===//
#ifndef SCRIMP_TRANSFORMS_PASSES_TD
#define SCRIMP_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def RaiseIdioms : Pass<"scrimp-raise-idioms", "::mlir::ModuleOp"> {
  let summary = "Make one op of what exporters write for one layer";
  let description = [{
    Recognises layer and RMS normalization with scale and bias, GELU (erf and tanh), SiLU, softmax, log_softmax,
    cross_entropy (the entry of a log_softmax at a label, by gather or one-hot, ignored labels) and attention (scaled
    queries and keys, masks added or selected, softmax, NaN replaced by 0, dropout, values). An attention's keys and values
    that are repeated for groups of query heads are read as they were before. Its masks are parted (conjunctions, sums),
    a dimension along which one repeats gets size 1, and one that depends on query and key through their distance alone
    is looked at by distance, never as a tensor of queries times keys: a band becomes `causal` and `window`, any other
    function, learned or not, a mask by distance. A large mask of queries times keys that is left is told in a remark.
    Random factors that drop whole samples or channels (stochastic depth, Dropout2d) become the dropout of ones.
    Logarithms and exponentials of what has been rounded away or overflows (log of a sigmoid, softmax, 1 + x, 1 + e^x or
    a sum of exponentials; e^x - 1; 1 - sigmoid; binary cross entropy of logits) become what is exact near 0 and finite
    far out.

    Constants are taken as they stand: epsilon and scale do not change, and a formula whose constants differ from an
    idiom's by more than their rounding stays as it is. Only the order of roundings changes.

    Requires: nothing.
    Ensures: what was not recognised is as it was.
    Fails: never.
    Example: test/Transforms/RaiseIdioms/attention.mlir, positions.mlir
  }];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

def DeriveEval : Pass<"scrimp-derive-eval", "::mlir::ModuleOp"> {
  let summary = "Clone @main to @eval, with what behaves otherwise in training turned to evaluation";
  let description = [{
    Every op that implements TrainModeOp is replaced by what it is in evaluation (dropout by its operand, the batch's
    statistics by the running ones). Results that update state are dropped: evaluation changes nothing. Arguments keep
    their names and roles, so that @eval shares their storage with training; those that evaluation does not read (the
    seed of a dropout, say) are dropped, apart from inputs and parameters.

    Requires: a function @main.
    Ensures: a function @eval after it, without scrimp.updates and without a TrainModeOp.
    Fails: if there is no @main, or an @eval exists.
    Example: test/Transforms/derive-eval.mlir
  }];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

def MaskEval : Pass<"scrimp-mask-eval", "::mlir::ModuleOp"> {
  let summary = "Let sums over samples leave out places that hold none";
  let description = [{
    Where the loss (or loss_sum and loss_count) is a sum over samples, as BatchAnalysis proves it, what is summed becomes
    0 from sample `valid_samples` on, a new scalar of @eval: so a last batch that is not full can be evaluated. A loss
    that is one such sum divided by another gives both as loss_sum and loss_count.

    Where `world` ranks do not divide the batch, some have a place more than they have samples: then the outputs of @main leave
    them out likewise, if all of them are proved to be sums.

    Requires: nothing; before parameters become buckets.
    Ensures: with valid_samples = the batch, no value changes; @eval without the scalar is as it was, and good for whole
    batches only.
    Fails: never.
    Example: test/Transforms/mask-eval.mlir
  }];
  let options = [Option<"world", "world", "int64_t", "1", "Ranks that share a batch of @main">];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

def Autodiff : Pass<"scrimp-autodiff", "::mlir::ModuleOp"> {
  let summary = "Add the backward pass: @main becomes @train";
  let description = [{
    Reverse mode over DifferentiableOp. Only values on a path from a trainable parameter to the loss get a gradient:
    frozen parameters and data cost no op and no saved value. Contributions to one value are added from its last use to
    its first (operands of one op in their order), each as soon as it exists, so a tied parameter, being one argument,
    has one gradient. A trainable parameter that the loss does not depend on gets no gradient and no update, as in
    PyTorch, and a warning. Every new op carries its forward op's location under the metadata "gradient". The result is
    cleaned by the canonicalizer and CSE.

    With `loss-scale` the gradients are those of the loss times loss_scale, a scalar of the runtime: so gradients of f16
    values do not vanish.

    Requires: @main with a result `scrimp.output = "loss"` and arguments `scrimp.param = "trainable"`.
    Ensures: @main is renamed @train; after the former results, one per differentiated parameter in the order of
    arguments, with `scrimp.gradient = "its name"` and its type.
    Fails: without a loss; if the loss is no scalar or no float; if nothing is trainable or the loss depends on nothing
    trainable; at an op on the path that has no gradient.
    Example: test/Transforms/autodiff.mlir
  }];
  let options = [Option<"lossScale", "loss-scale", "bool", "false", "differentiate the loss times a scalar loss_scale">];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

def MixedPrecision : Pass<"scrimp-mixed-precision", "::mlir::ModuleOp"> {
  let summary = "Compute from, and store, 16-bit activations and gradients of activations";
  let description = [{
    Of a graph in f32, values that depend on data and on parameters (activations and their gradients) are stored in the
    type `to`. Contractions take 16-bit operands, for which parameters are cast; norms, softmax and reductions read and
    write 16 bits and compute in f32; what is computed element by element is computed in f32 as long as one kernel does
    it, and rounded once, where it is stored. Which is which, ops say themselves (PrecisionOp).

    In f32 stay: parameters (the masters, under their names), their gradients (a contraction gives them as it sums them),
    results of the function; statistics; what depends on data alone (positions, targets) or on parameters alone; what no
    contraction follows, forward (the loss) or backward; layers that `keep-fp32` names by a pattern over layers,
    modules or parameters. With `masters=false` the parameters themselves are of the type `to`, apart from those kept.

    Casts are explicit: one that narrows for each value, where it is computed or, of an argument, first read. Widening
    ones are made in the kernels that read (KernelOp::isFreeInKernel).

    A mask's "never", the least f32, stays finite in 16 bits: splats are saturated, and so is what is computed of
    activations and of numbers that are not learned for an op that computes in f32 (softmax). A row that sees nothing
    then has equal probabilities, as in PyTorch, whose softmax reads such a sum in f32. Infinities stay infinite.

    Requires: functions of one block, before parameters become buckets; values in f32 (others keep their types).
    Ensures: results of functions keep their types; @train and @eval are cast alike.
    Fails: on another type; on a `keep-fp32` pattern that matches nothing.
    Example: test/Transforms/mixed-precision.mlir
  }];
  let options = [
    Option<"to", "to", "std::string", [{"bf16"}], "bf16 or f16">,
    ListOption<"keepFp32", "keep-fp32", "std::string", "layers, modules or parameters that stay in f32: patterns">,
    Option<"masters", "masters", "bool", "true", "parameters stay in f32">
  ];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

def Optimizer : Pass<"scrimp-optimizer", "::mlir::ModuleOp"> {
  let summary = "Turn gradients into updates of flat buckets";
  let description = [{
    Parameters become flat buckets, one for each block of the model (the module up to the first number in the parameter's name, or
    what `block` matches; the rest has one too), element type and group: those that decay, those that do not, and those
    that are not updated (frozen, or without a gradient), which have no state. They are arguments `bucket.h.0.decay.f32`
    with `scrimp.bucket`, a table of members, each at a multiple of 64 bytes; the whole is one of 256 bytes x `world`. The
    states of a bucket ("exp_avg", ...) are buckets of the same layout, initially 0, in f32 for f16 and bf16, or in bf16
    with `states=bf16`. What is kept in bf16 is rounded by chance (scrimp.stochastic_round), keyed by seed, step, name and
    element. Parameters are read through scrimp.view and replaced through scrimp.pack. @eval, if there, reads the same buckets.

    The rules are PyTorch's (torch.optim.SGD, Adam, AdamW), built of elementwise ops on each member's flat view, with
    hyperparameters as scalar arguments in the widest compute type among the parameters. A switch that is off builds
    nothing and its scalar does not exist. Weight decay spares the parameters that `no-decay` names: glob patterns over
    names and aliases, or `1d` for those of rank 0 and 1 (biases and norms). By default it spares none, as in PyTorch.

    Each update comes as early as it may: right after the gradient, or after the last reader of the old parameter, so that
    the gradient can be freed within the backward pass. With `clip-grad-norm` all come after the norm, their gradients
    scaled by min(1, clip_norm / (norm + 1e-6)); with `wait-for-norm` they come after it unscaled, and the output is a
    gate (scrimp.gate). With `loss-scale` gradients are those of the loss times the scalar loss_scale: norm and updates take
    them times the scalar `unscale`, and updates wait for the norm. The output `grad_norm` (f64) is the norm before clipping,
    over every element of every gradient once; squares are summed in f64 in the order of the updates. The sum is checked (scrimp.check_finite) after each
    parameter, which tells the first whose gradient is not finite.

    With several ranks (`world`; scrimp-partition) the gradients of a bucket are computed in one of the same layout, added up
    over the ranks, and the bucket is updated at once. `zero` shares out (arXiv:1910.02054): from stage 1 on each rank reduces
    and updates its part of a bucket, and has states of that alone; the new parts are gathered into the parameters, or, where
    parameters are read in 16 bits only, in the next step when they are read, in 16 bits: then each rank keeps its part of
    the f32 ones too. In stage 3 parameters are parts, frozen ones too, gathered where they are read: for
    each use anew, but those of blocks that `unshard` names once, and kept until their last reader. Stages 1 and 2 differ in
    `sync` alone: per-step sums gradients of micro-batches first, per-micro-batch each part in a part's bytes. Parameters of
    fewer than `persist-below` elements stay whole. With `layout=matrices`, for rules that need a whole matrix, no tensor lies in the
    parts of two ranks: buckets are then of the whole model, tensors go to the rank that has least, and each part is as large as
    the largest. Of a part no rank alone checks whether it is finite: the sum is.

    Requires: @train from scrimp-autodiff (results with scrimp.gradient).
    Ensures: no scrimp.gradient is left; results are outputs, then updates of states and buckets; no op reads a piece of
    a bucket after the op that computes the piece's new value.
    Fails: on an unknown kind, switches that do not fit it, a `no-decay` pattern that matches nothing, and without
    gradients.
    Example: test/Transforms/optimizer.mlir
  }];
  let options = [
    ListOption<"blocks", "block", "std::string", "modules that are blocks: patterns">,
    Option<"world", "world", "int64_t", "1", "ranks that gradients are added up over">,
    Option<"zero", "zero", "int64_t", "0", "what ranks share out: 0 nothing, 1 and 2 states, 3 parameters too">,
    Option<"sync", "sync", "std::string", [{"auto"}], "add gradients up per-step or per-micro-batch (auto: from stage 2 on)">,
    Option<"reduceDtype", "reduce-dtype", "std::string", [{""}], "what f32 gradients are sent as: f32, bf16 or f16">,
    ListOption<"unshard", "unshard", "std::string", "stage 3: blocks whose gathered parameters are kept from the first reader to the last: patterns">,
    Option<"layout", "layout", "std::string", [{"elements"}], "what a rank's part of a bucket is: elements, or whole matrices">,
    Option<"bucketBytes", "bucket-bytes", "int64_t", "0", "the most bytes of a bucket of several parameters; 0: any">,
    Option<"persistBelow", "persist-below", "int64_t", "0", "elements below which a parameter is not shared out">,
    Option<"kind", "kind", "std::string", [{"adamw"}], "sgd, adam or adamw">,
    Option<"momentum", "momentum", "bool", "false", "sgd: keep a momentum buffer (scalars momentum, one_minus_dampening)">,
    Option<"nesterov", "nesterov", "bool", "false", "sgd: Nesterov momentum">,
    Option<"decay", "decay", "bool", "true", "apply weight decay (scalar weight_decay or decay_factor)">,
    Option<"clipGradNorm", "clip-grad-norm", "bool", "false", "clip by the global norm (scalar clip_norm)">,
    Option<"waitForNorm", "wait-for-norm", "bool", "false", "no update comes before the norm; clipping implies it">,
    Option<"lossScale", "loss-scale", "bool", "false", "gradients are scaled (scalar unscale)">,
    Option<"states", "states", "std::string", [{"f32"}], "the type of states: f32 (f64 for f64 parameters) or bf16">,
    ListOption<"noDecay", "no-decay", "std::string", "parameters without weight decay: patterns, or 1d for rank 0 and 1">
  ];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

def Partition : Pass<"scrimp-partition", "::mlir::ModuleOp"> {
  let summary = "Share the samples of a batch out to ranks";
  let description = [{
    Functions become those of one of `world` ranks, all the same but for the scalar `rank`: inputs hold the rank's samples, rank
    r's being consecutive ones from the scalar `sample_base` on, and each rank computes what follows from its own. Where ranks do
    not divide the batch the first have one more, and all have a place for it (scrimp-mask-eval). What
    needs more is exchanged: a sum that others read is added up over the ranks (a count of valid tokens before the samples
    that it weighs, a loss at the end); where an op needs all samples at once, every rank gathers what it reads and computes
    it whole. Of what is the same on all ranks, each takes its samples. Gradients (scrimp.gradient) stay what the rank adds
    to them: scrimp-optimizer adds them up in buckets.

    Random ops draw by the global index of a sample, so masks are those of one process. Batch normalisation needs
    `batch-stats`: with `global` ranks add up its sums, forward and backward (BatchSplitOp, buildSharedPiece); with `per-rank` each rank has its own, and running
    statistics are those of rank 0: what is learned is another thing then.

    Requires: @train from scrimp-autodiff; before scrimp-optimizer. With one rank nothing changes.
    Ensures: sums differ from those of one process in their order only.
    Fails: where the batch does not divide and places are not left out; at batch normalisation without a choice; without a batch.
    Example: test/Transforms/partition.mlir
  }];
  let options = [
    Option<"world", "world", "int64_t", "1", "How many ranks">,
    Option<"batchStats", "batch-stats", "std::string", [{""}], "Batch normalisation: global or per-rank">
  ];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

def SplitBatch : Pass<"scrimp-split-batch", "::mlir::ModuleOp"> {
  let summary = "Split the batch into micro-batches whose gradients add up";
  let description = [{
    What works on samples moves into a scrimp.accumulate over `micro-batches` pieces of the batch; what depends on data
    alone and needs the whole batch (a count of valid tokens) is computed before it, and what needs complete sums (the
    norm, clipping, updates, a quotient of sums) after it. Accumulators start from 0 and are f32 for f16 and bf16; with
    `accumulate=bf16` those of f32 are bf16, apart from single numbers. Where
    the count does not divide the batch, the first pieces have one sample more: two loops on the same accumulators.
    Random ops draw by the global index of a sample, so masks are those of the whole batch.

    Values that are the same for all pieces are computed before the loop, unless they cost nothing; of those with samples
    (a mask, a broadcast) each piece makes its own part. With `batch-stats=per-micro-batch` batch normalisation normalises
    each piece by itself, and running statistics are carried through the loop: what is learned is another thing then.

    Requires: functions of one block; the order of the graph, not of a schedule. Functions without a batch must not be
    there. One micro-batch: nothing changes.
    Ensures: sums differ from those of the whole batch in their order only.
    Fails: where the counts do not fit; at an op that mixes samples and depends on parameters; at an output that has a
    value for every sample.
    Example: test/Transforms/split-batch.mlir
  }];
  let options = [
    Option<"microBatches", "micro-batches", "int64_t", "0", "How many pieces; 0: as the size asks, or one">,
    Option<"microBatchSize", "micro-batch-size", "int64_t", "0", "The most samples of a piece; 0: any">,
    Option<"accumulate", "accumulate", "std::string", [{"f32"}], "what sums are kept in: f32 (f64 for f64), or bf16">,
    Option<"batchStats", "batch-stats", "std::string", [{"whole"}],
           "whole: batch normalisation does not split; per-micro-batch: each piece has statistics of its own">
  ];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

def Chunk : Pass<"scrimp-chunk", "::mlir::ModuleOp"> {
  let summary = "Run parts of the model in chunks of their tokens";
  let description = [{
    For each rule GLOB=N, every module whose scope GLOB matches runs in N chunks of its tokens or samples, along the largest
    dimension of what it reads first that its ops can be split along: a scrimp.accumulate. Sums (gradients of weights) are
    added up over the chunks; of what is split each chunk writes its part.

    Where the backward pass of the module follows from its forward pass alone (a head and whatever loss comes after it),
    both are one loop, with all that lies between. Elsewhere there are two, and the backward one computes again what it needs
    of the forward one: nothing of all tokens is kept but what goes in and comes out.

    Requires: before scrimp-form-linear and scrimp-rematerialize; names of modules in locations.
    Ensures: sums differ in their order only.
    Fails: on a malformed rule, a pattern that matches nothing, and at an op that needs all tokens at once.
    Example: test/Transforms/chunk.mlir
  }];
  let options = [ListOption<"rules", "rules", "std::string", "GLOB=N">];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

def FormLinear : Pass<"scrimp-form-linear", "::mlir::ModuleOp"> {
  let summary = "Let products add themselves to sums, and take in what a library does in the same call";
  let description = [{
    In a sum whose terms nobody else reads, products and scatters (AccumulatingOp), and loops that add up from 0 on, add
    themselves to an accumulator of the loop around, or else to the first of them, in its bytes: a gradient takes no buffer beside its accumulator, and
    the gradients of a tied parameter share one. Terms are added in the order in which they are computed, each product
    where it stands.

    Where the target's library has epilogues (TargetAttr), a product of matrices becomes a `linear`, which takes in what
    alone reads its result: a bias, a value added to it that is stored anyway, an EpilogueOp; and of an operand the sum over
    rows, which is the gradient of a bias beside that of a weight. It is computed in the type of sums and rounded once, so
    in 16 bits the bias is rounded to the result's type.

    Requires: before scrimp-rematerialize and scrimp-form-kernels, as it changes how sums are rounded.
    Ensures: the same sums in another order; no value is stored that was not before.
    Fails: never.
    Example: test/Transforms/form-linear.mlir, test/Transforms/form-linear-epilogues.mlir
  }];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

def CastBuckets : Pass<"scrimp-cast-buckets", "::mlir::ModuleOp"> {
  let summary = "On a device, cast parameters to 16 bits a bucket at a time";
  let description = [{
    Where nearly all elements of a bucket are cast to one type, member by member, the whole bucket is cast once and its
    members are views of that: one launch in place of many. On a CPU nothing changes: there a launch costs little.

    Requires: before scrimp-rematerialize, which then casts the bucket again or keeps it.
    Ensures: the same numbers.
    Fails: never.
    Example: test/Transforms/cast-buckets.mlir
  }];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

def AnnotateBatch : Pass<"scrimp-annotate-batch", "::mlir::func::FuncOp"> {
  let summary = "Write beside each op where the batch is in its results";
  let description = [{
    Sets `scrimp.batch` on every op, for each result one of: `invariant` (the same for all pieces of the batch),
    `split(d)` (pieces have samples along dimension d; with `outer n` that is [n, samples, rest]), `own` (each piece has
    one), `partial` (the sum over the pieces), `total` (computed from complete sums), `mixed` (none of these). Instead of them `whole`: the op depends
    on data alone and is computed once from the whole batch. Why an op cannot work on pieces is a remark at it.

    Requires: one block; arguments with scrimp.input.
    Ensures: nothing else changes.
    Fails: never.
    Example: test/Transforms/annotate-batch.mlir
  }];
}

def ConvertPrecision : Pass<"scrimp-convert-precision", "::mlir::ModuleOp"> {
  let summary = "Compute in one float type";
  let description = [{
    Every tensor type of another float becomes the type `to`: arguments, results and constants, whose values are rounded to
    nearest where `to` is narrower, and what is finite stays so (the lowest double of an attention mask). f64 attributes,
    names, roles and other types stay. Training in fp64 is how logic is compared with a framework to 1e-10; f32 is what
    scrimp-mixed-precision starts from.

    Requires: nothing; runs at any graph level, before memory is planned.
    Ensures: no value of a tensor type of another float is left.
    Fails: if `to` is neither f64 nor f32.
    Example: test/Transforms/convert-precision.mlir
  }];
  let options = [Option<"to", "to", "std::string", [{"f64"}], "the float type: f64 or f32">];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

def Rematerialize : Pass<"scrimp-rematerialize", "::mlir::ModuleOp"> {
  let summary = "Compute again in the backward pass what is not worth keeping";
  let description = [{
    A residual is a value that the loss depends on and the backward pass reads. Which are kept, and which are computed
    again from those that are, the `policy` decides; within it the cheapest choice is taken (a minimum cut, see
    Planner/Rematerialization.h):

    - `none`: all are kept; only a copy with other strides of a value that is kept anyway (a transpose) is made again.
    - `full`: in each block what comes from outside of it is kept, all else is computed again.
    - `selective`: products, convolutions and attention are kept as far as needed; pointwise ops, norms and softmax are
      computed again where that saves bytes.
    - `min-cut`: as PyTorch's partitioner: as `selective`, but a small result of a large reduction is kept, and so is, of
      two values of a size, the one that is stored anyway.
    - `tradeoff=SECONDS_PER_BYTE`: least time of recomputation plus this price of every byte that is kept. A rising price
      gives a family of ever fewer bytes; of equal layers the earliest is computed again first.
    - `save=GLOB,...`: as `full`, but values whose names match are kept. `recompute=GLOB,...`: as `none`, but values
      whose names match are computed again. Names are those of reports.

    Blocks are the numbered modules in the names of ops (`transformer.h.0`, `layer1.1`), or what `block` patterns match of
    these scopes; in a graph without names the longest repetitions of the same ops; else where one value is all that is
    alive. Adjacent blocks are taken together where that lowers the sum of what is kept and of the largest block.
    Nothing that another block reads is computed again, so no more than one block is at a time.

    An op is computed again right before its first reader in the backward pass, and reads what is kept through a
    scrimp.after on the gradient that arrives there. A pointwise op that its reader's kernel can compute is made for that
    reader alone, if this costs less than storing it. Random ops draw the same numbers. What reads a forward value and is
    no part of the backward pass (running statistics) reads the original. Each body (scrimp.accumulate) is treated by
    itself; what lies outside of it is kept.

    Requires: after the last pass that changes bits, before kernels are formed.
    Ensures: no bit of any result changes. What is computed again carries its op's location under the metadata
    "recomputed".
    Fails: on an unknown policy, a malformed pattern, or one that matches nothing.
    Example: test/Transforms/rematerialize.mlir
  }];
  let options = [
    Option<"policy", "policy", "std::string", [{"none"}], "none, full, selective, min-cut, tradeoff=..., save=..., or recompute=...">,
    ListOption<"blocks", "block", "std::string", "glob patterns of the module scopes that are blocks">,
    Option<"list", "list", "bool", "false", "A remark at every residual: whether it is kept or computed again, and its bytes">,
    Option<"flopsPerSecond", "flops-per-second", "double", "1e11", "Of products and convolutions, for tradeoff">,
    Option<"mapFlopsPerSecond", "map-flops-per-second", "double", "4e10", "Of generated code">,
    Option<"bytesPerSecond", "bytes-per-second", "double", "1.5e10", "Of memory">,
    Option<"secondsPerLaunch", "seconds-per-launch", "double", "2e-6", "Of any command">
  ];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

def FormKernels : Pass<"scrimp-form-kernels", "::mlir::ModuleOp"> {
  let summary = "Group graph ops into kernels";
  let description = [{
    Every op that is computed by generated code goes into a `scrimp.kernel`. Elementwise ops of one shape share a kernel
    where one reads the other element by element and no path leaves the group and comes back. An op that is free to
    compute again (a broadcast, a splat) is copied into each kernel that reads it, and stored only for a library call,
    a view or the function's result. Fusion moves no rounding: bits are those of `fuse=false`.

    On a device an op that is no map takes in moves of its results that nothing else reads (KernelOp::placesOperands):
    its kernel stores elements where they go.

    Bodies (scrimp.accumulate) are grouped each by itself. A splat that one is to update in place is computed for it alone.

    Requires: functions of one block; updates written out as ops.
    Ensures: functions and bodies hold kernels, library calls, views, constants that are no splats, and ops with bodies.
    Fails: at an op that has no kernel.
    Example: test/Transforms/form-kernels.mlir
  }];
  let options = [Option<"fuse", "fuse", "bool", "true", "Let ops share kernels; otherwise every op gets its own">];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}



def StreamInputs : Pass<"scrimp-stream-inputs", "::mlir::ModuleOp"> {
  let summary = "Fill inputs that only loops read piece by piece";
  let description = [{
    An input (scrimp.input with a batch dimension) that nothing but loops reads, whole samples in each iteration and each
    sample once, is marked scrimp.streamed, and its pieces `filled`: the plan has no room for it but for the piece under
    way. An input that functions share is streamed in all of them or in none. One whose samples do not follow one another
    (a batch dimension that is not the first) is read whole.

    Requires: after the last pass that adds readers.
    Ensures: no value changes.
    Example: test/Transforms/stream-inputs.mlir
  }];
}

def Schedule : Pass<"scrimp-schedule", "::mlir::func::FuncOp"> {
  let summary = "Reorder a function so that less is live at once";
  let description = [{
    List scheduling over the dependences of values and the order of reads and writes of shared bytes (a bucket is read
    before a piece of it is replaced): what frees most runs first, so an update runs as soon as its gradient is there; of
    what only adds, the earlier in the given order, or that which is needed earliest, whichever has the lower peak. Where
    a result is the loss or a gate (scrimp.gate), updates of arguments come after it: a step that ends there has changed
    nothing.

    An op that means an argument's old contents is moved before the update if the given order has it after. Each body
    is ordered by itself, for the peak while it runs.

    Then what only starts something (AsyncOp) moves up to where its operands are known and the op that ends it down to the
    first reader, so that what lies between runs meanwhile: each as far as the peak rises by no more than `overlap-bytes`,
    and never before what is needed earlier has started. What computes for such ops alone, from arguments (the cast of a part
    that is gathered in 16 bits), moves along.

    Requires: one block a function.
    Ensures: the peak (the largest live set, as scrimp-plan-memory counts it) is at most `overlap-bytes` higher than
    before, unless the given order was not legal.
    Fails: if the alias model does (see scrimp-plan-memory).
    Example: test/Transforms/schedule.mlir
  }];
  let options = [
    Option<"keepOrder", "keep-order", "bool", "false", "Change no more of the order than makes it legal">,
    Option<"overlap", "overlap", "bool", "true", "Start early what runs beside other ops, and wait for it late">,
    Option<"overlapBytes", "overlap-bytes", "int64_t", "0", "Bytes by which that may raise the peak">
  ];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

def JoinUpdates : Pass<"scrimp-join-updates", "::mlir::func::FuncOp"> {
  let summary = "On a device, update the members of a bucket in one launch";
  let description = [{
    Kernels of maps that update pieces of the same arguments (a bucket's members and their states) become one kernel of
    up to 8 sections, at the place of the last of them: what an earlier one reads lives until then, so each joins only if the
    peak stays, and those that do not are joined among themselves. Where updates wait for the norm, all join. On a CPU nothing
    changes: there a launch costs little.

    Requires: behind scrimp-schedule, whose order it otherwise keeps.
    Ensures: the same bits; the peak (the largest live set, as scrimp-plan-memory counts it) is not higher.
    Fails: if the alias model does (see scrimp-plan-memory).
    Example: test/Transforms/join-updates.mlir
  }];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

def AttachTarget : Pass<"scrimp-attach-target", "::mlir::ModuleOp"> {
  let summary = "Say what the module is compiled for";
  let description = [{
    Sets `scrimp.target`, which every later pass asks: it decides what scratch ops take, and how they become code.

    Fails: where the target is none of cpu, emulated and cuda, or has no thread, or no TF32.
    Example: test/Transforms/attach-target.mlir
  }];
  let options = [
    Option<"kind", "kind", "std::string", "\"cpu\"", "cpu, emulated or cuda">,
    Option<"workers", "workers", "int64_t", "1", "The most threads of a CPU that will run the program">,
    Option<"tf32", "tf32", "bool", "false", "A device: products of f32 round their operands to TF32">
  ];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

def ArrangeMoves : Pass<"scrimp-arrange-moves", "::mlir::ModuleOp"> {
  let summary = "Have slices, transposes and concats made by the kernels around them";
  let description = [{
    Around attention a model moves elements: q, k and v are slices of one product, heads a transposed dimension, and
    gradients go back into one tensor. On a device (not on a processor, whose library computes attention) three things
    save the launches and the bytes of these:

    - A move that keeps rows (KernelOp::keepsRows) and that only kernels read is left to them: it is marked
      `scrimp.in_readers`, so that it is free (isFreeInKernel), which rematerialization knows as well. Not where its
      source would have to stay in memory longer for it.
    - A result that is stored transposed for a reader that is no kernel is stored only so; kernels read it through the
      inverse. scrimp-form-kernels then has the op store its results there (placesOperands).
    - A reshape goes in front of a slice and behind a concat, so that these stand next to such kernels.

    Requires: behind the passes that decide bits, before scrimp-rematerialize.
    Ensures: no value changes, elements are only moved at other places.
    Example: test/Transforms/arrange-moves.mlir
  }];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

def ExpandForTarget : Pass<"scrimp-expand-for-target", "::mlir::ModuleOp"> {
  let summary = "Replace what the target has no code for by ops that it has";
  let description = [{
    Each op says what it becomes on the module's target (KernelOp, buildExpansion): a convolution on a device becomes
    columns and products of matrices. What lies between these ops is planned as every other value. Runs behind
    rematerialization, so that it repeats, keeps and counts what the graph says, and the bits follow from graph and
    target.

    Example: test/Transforms/expand-for-target.mlir
  }];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

def VerifyCollectives : Pass<"scrimp-verify-collectives", "::mlir::ModuleOp"> {
  let summary = "Prove that all ranks run the same collectives in the same order";
  let description = [{
    All ranks run one program of static shapes. So they meet in every collective unless one stands where not every rank
    comes: in a body that may not run. Where one may end its step early (scrimp.check_finite, the loss), the runtime has
    all agree on it, unless the value is the same on all ranks: what a collective gives to all is, and what is computed
    from such values alone.

    Ensures: all collectives and parts (scrimp.shard) are for one number of ranks, parts are chosen by the number of the
    rank, and everything that is started is waited for.
    Fails: with an error at the op that does not hold to it.
    Example: test/Transforms/verify-collectives-errors.mlir
  }];
}

def PlanMemory : Pass<"scrimp-plan-memory", "::mlir::ModuleOp"> {
  let summary = "Give every buffer of all functions an offset in one arena";
  let description = [{
    Two buffers share bytes only when their live ranges are disjoint, or where a result overwrites an operand that dies
    at the same op and the alias model allows it. Arguments of the same name are the same bytes in all functions.
    Functions run one after another, so what they need for a step alone is one region that they share.

    The arena, in this order: parameters (also running statistics and constants), optimizer_state, inputs (also scalars
    and outputs), then that region. Segments tile the arena. Inside the region the three segments gradients, activations
    and workspace are an account of who holds its bytes at the highest peak (activations gets what nobody holds then);
    at other times any of them lies anywhere in it.

    A body (scrimp.accumulate) is planned once, its ops in line with those around it: what comes from outside keeps its
    bytes until the last iteration, what is made inside shares bytes with all that is dead meanwhile.

    Sets scrimp.offset on arguments, scrimp.offsets (one per result) on every op that is not a view or pack,
    scrimp.body_offsets (of the iteration's number) on ops with bodies, scrimp.workspace where an op takes scratch, and
    on the module scrimp.plan: arena_bytes, lower_bound_bytes, alignment and segments, each with name, offset,
    bytes. The lower bound is the persistent bytes plus the largest live set.

    Requires: one block a function; ops grouped into kernels.
    Ensures: verifyPlan (Analysis/PlanVerifier.h), which runs at the end: offsets are aligned; no two live buffers
    overlap; everything that is read is what was written.
    Fails: with an error at the value that cannot lie where a pack or an update wants it, at the op that would read what
    is overwritten by then, and at the largest buffer if the arena exceeds `capacity`.
    Example: test/Transforms/plan-memory.mlir
  }];
  let options = [
    Option<"capacity", "capacity", "int64_t", "0", "The most bytes the arena may take; 0: any number">,
    Option<"verifyOnly", "verify-only", "bool", "false", "Only check the plan that is there">
  ];
  let dependentDialects = ["::mlir::scrimp::ScrimpDialect"];
}

#endif
