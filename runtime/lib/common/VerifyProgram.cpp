// The gate in front of everything: a program from bytes to meaning.
#include "VerifyDevice.h"
#include "VerifyInFlight.h"
#include "scrimp/runtime/Library.h"
#include "scrimp/runtime/Program.h"
#include "scrimp/runtime/Scalars.h"
#include "scrimp/runtime/TensorFile.h"
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <set>
#include <vector>

namespace scrimp::runtime {

using namespace program;

int64_t elementCount(const flatbuffers::Vector<int64_t> *shape) {
  int64_t count = 1;
  for (int64_t extent : items(shape))
    count *= extent;
  return count;
}

std::string shapeText(const flatbuffers::Vector<int64_t> *shape) {
  std::string text = "[";
  for (int64_t extent : items(shape))
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

const Graph *findGraph(const Program *program, std::string_view name) {
  for (const Graph *graph : items(program->graphs()))
    if (textOf(graph->name()) == name)
      return graph;
  return nullptr;
}

const Output *findOutput(const Graph *graph, std::string_view name) {
  for (const Output *output : items(graph->outputs()))
    if (textOf(output->name()) == name)
      return output;
  return nullptr;
}

const Hyperparameter *findHyperparameter(const Program *program, std::string_view name) {
  for (const Hyperparameter *parameter : items(program->hyperparameters()))
    if (textOf(parameter->name()) == name)
      return parameter;
  return nullptr;
}

namespace {

// Far above any machine, and small enough that sums of offsets cannot overflow.
constexpr uint64_t largestArena = uint64_t{1} << 48;
constexpr size_t deepestRepeat = 8;
constexpr uint32_t mostWorkers = 4096;
constexpr uint32_t mostRanks = 1 << 20, mostEvents = 1 << 20;

class ProgramVerifier {
public:
  ProgramVerifier(const Program *program, const ProgramImage &image) : program(program), image(image) {}

  Status verify() {
    header();
    if (status.failed())
      return status;
    segments();
    for (const Tensor *tensor : items(program->tensors()))
      verifyTensor(tensor);
    for (const Carried *carried : items(program->carried()))
      verifyCarried(carried);
    for (const Input *input : items(program->inputs()))
      verifyInput(input);
    for (const Scalar *scalar : items(program->scalars()))
      verifyScalar(scalar);
    for (const Hyperparameter *parameter : items(program->hyperparameters()))
      verifyHyperparameter(parameter);
    for (const Graph *graph : items(program->graphs()))
      verifyGraph(graph);
    if (!status.failed() && !findGraph(program, "train"))
      fail("there is no graph 'train'");
    if (std::string fault = status.failed() ? "" : findDeviceFault(program); !fault.empty())
      fail("%s", fault.c_str());
    return status;
  }

private:
  const Program *program;
  const ProgramImage &image;
  Status status;
  std::set<std::string_view> names, inputNames;
  std::vector<int64_t> counts; // of the repeats around the command under way

  [[gnu::format(printf, 2, 3)]] void fail(const char *fmt, ...) {
    if (status.failed())
      return;
    va_list list;
    va_start(list, fmt);
    char text[512];
    vsnprintf(text, sizeof(text), fmt, list);
    va_end(list);
    status = Status::error("invalid program: %s; recompile the model", text);
  }

  void header() {
    if (program->program_version() != programVersion)
      fail("version %u, this runtime reads version %u", program->program_version(), programVersion);
    if (program->arena_bytes() > largestArena)
      fail("arena of %llu bytes", (unsigned long long)program->arena_bytes());
    uint64_t alignment = program->alignment();
    if (alignment < 8 || (alignment & (alignment - 1)) || alignment > 4096 || program->arena_bytes() % alignment)
      fail("alignment %llu of an arena of %llu bytes", (unsigned long long)alignment,
           (unsigned long long)program->arena_bytes());
    if (program->workers() < 1 || program->workers() > mostWorkers)
      fail("workspaces for %u threads", program->workers());
    if (program->world() < 1 || program->world() > mostRanks)
      fail("a world of %u ranks", program->world());
    if (program->batch() < 1)
      fail("batch of %lld samples", (long long)program->batch());
    if (program->tokens_per_sample() < 0)
      fail("%lld tokens a sample", (long long)program->tokens_per_sample());
    if (items(program->kernels()).size() != image.kernelCount)
      fail("it lists %zu kernels, the executable has %llu", items(program->kernels()).size(),
           (unsigned long long)image.kernelCount);
  }

  bool inArena(uint64_t offset, uint64_t bytes) const {
    return offset <= program->arena_bytes() && bytes <= program->arena_bytes() - offset;
  }

  void segments() {
    std::vector<const Segment *> sorted;
    for (const Segment *segment : items(program->segments())) {
      sorted.push_back(segment);
      if (!inArena(segment->offset(), segment->bytes()))
        fail("segment %s lies outside the arena", EnumNameSegmentKind(segment->kind()));
    }
    std::sort(sorted.begin(), sorted.end(), [](const Segment *a, const Segment *b) {
      return std::pair(a->offset(), a->bytes()) < std::pair(b->offset(), b->bytes());
    });
    for (size_t i = 1; i < sorted.size() && !status.failed(); ++i)
      if (sorted[i - 1]->offset() + sorted[i - 1]->bytes() > sorted[i]->offset() && sorted[i]->bytes())
        fail("segments %s and %s overlap", EnumNameSegmentKind(sorted[i - 1]->kind()),
             EnumNameSegmentKind(sorted[i]->kind()));
  }

  /// FlatBuffers' own verifier checks the alignment of tables but not of what a vector holds. Its builder does not
  /// align empty ones.
  template <typename T> bool aligned(const flatbuffers::Vector<T> *vector) {
    bool ok = !vector || vector->size() == 0 || reinterpret_cast<uintptr_t>(vector->Data()) % 8 == 0;
    if (!ok)
      fail("a vector is not aligned to 8 bytes");
    return ok;
  }

  /// How many elements of a known type a shape holds; at most `most` + 1. Negative after a failure.
  int64_t count(const char *what, std::string_view name, DType type, const flatbuffers::Vector<int64_t> *shape,
                uint64_t most) {
    if (!aligned(shape))
      return -1;
    if (!isKnown(type)) {
      fail("%s '%.*s' has unknown type %d", what, (int)name.size(), name.data(), (int)type);
      return -1;
    }
    __int128 elements = 1;
    for (int64_t extent : items(shape)) {
      if (extent < 0) {
        fail("%s '%.*s' has extent %lld", what, (int)name.size(), name.data(), (long long)extent);
        return -1;
      }
      elements = std::min<__int128>(elements * extent, static_cast<__int128>(most) + 1);
    }
    return static_cast<int64_t>(elements);
  }

  /// Whether so many elements of a known type, at most 2^49, are there.
  void inside(const char *what, std::string_view name, DType type, uint64_t elements, uint64_t offset) {
    if (!inArena(offset, elements * static_cast<uint64_t>(elementBytes(type))))
      fail("%s '%.*s' lies outside the arena", what, (int)name.size(), name.data());
    if (offset % static_cast<uint64_t>(elementBytes(type)))
      fail("%s '%.*s' is not aligned", what, (int)name.size(), name.data());
  }

  /// Type, shape and place of anything with elements.
  void place(const char *what, std::string_view name, DType type, const flatbuffers::Vector<int64_t> *shape,
             uint64_t offset) {
    int64_t elements = count(what, name, type, shape, largestArena);
    if (elements >= 0)
      inside(what, name, type, static_cast<uint64_t>(elements), offset);
  }

  /// Of what is never whole in the arena samples are counted all the same.
  void placeNowhere(const char *what, std::string_view name, DType type, const flatbuffers::Vector<int64_t> *shape) {
    if (count(what, name, type, shape, largestArena) > static_cast<int64_t>(largestArena))
      fail("%s '%.*s' is too large", what, (int)name.size(), name.data());
  }

  /// A tensor of a bucket that is shared out: each rank's part is in the arena, the tensor in the parts of all.
  void placePart(const Tensor *tensor, std::string_view name) {
    uint64_t part = std::min(tensor->part_elements(), largestArena + 1);
    __int128 all = std::min(static_cast<__int128>(part) * program->world(), __int128{1} << 58);
    int64_t elements = count("tensor", name, tensor->dtype(), tensor->shape(), static_cast<uint64_t>(all));
    if (elements < 0)
      return;
    if (program->world() == 1)
      fail("tensor '%.*s' is shared out to one rank", (int)name.size(), name.data());
    inside("tensor", name, tensor->dtype(), part, tensor->offset());
    if (tensor->bucket_offset() > all || elements > all - tensor->bucket_offset())
      fail("tensor '%.*s' lies outside of what the ranks have of its bucket", (int)name.size(), name.data());
  }

  void unique(std::string_view name) {
    if (!names.insert(name).second)
      fail("two tensors are named '%.*s'", (int)name.size(), name.data());
  }

  void verifyTensor(const Tensor *tensor) {
    std::string_view name = textOf(tensor->name());
    unique(name);
    for (const flatbuffers::String *alias : items(tensor->aliases()))
      unique(textOf(alias));
    if (tensor->part_elements())
      placePart(tensor, name);
    else
      place("tensor", name, tensor->dtype(), tensor->shape(), tensor->offset());
    if (tensor->role() > TensorRole::MAX || tensor->role() < TensorRole::MIN)
      fail("tensor '%.*s' has an unknown role", (int)name.size(), name.data());
    if (tensor->init() > InitKind::MAX || tensor->init() < InitKind::MIN)
      fail("tensor '%.*s' has an unknown initial value", (int)name.size(), name.data());
    if (status.failed() || tensor->init() != InitKind::file)
      return;
    uint64_t bytes = static_cast<uint64_t>(byteCount(tensor));
    if (tensor->weights_offset() > program->weights_bytes() ||
        bytes > program->weights_bytes() - tensor->weights_offset())
      fail("the weights of '%.*s' lie outside the trailer", (int)name.size(), name.data());
  }

  void verifyCarried(const Carried *carried) {
    std::string_view name = textOf(carried->name());
    unique(name);
    for (const flatbuffers::String *alias : items(carried->aliases()))
      unique(textOf(alias));
    FileType type;
    if (!aligned(carried->shape()))
      return;
    if (!safetensorsType(carried->dtype()->str(), type))
      return fail("tensor '%.*s' has unknown type '%s'", (int)name.size(), name.data(), carried->dtype()->c_str());
    __int128 bytes = fileTypeBytes(type);
    for (int64_t extent : items(carried->shape())) {
      if (extent < 0)
        return fail("tensor '%.*s' has extent %lld", (int)name.size(), name.data(), (long long)extent);
      bytes = std::min<__int128>(bytes * extent, __int128{1} << 58);
    }
    if (bytes != static_cast<__int128>(carried->bytes()) || carried->weights_offset() > program->weights_bytes() ||
        carried->bytes() > program->weights_bytes() - carried->weights_offset())
      fail("the bytes of '%.*s' lie outside the trailer", (int)name.size(), name.data());
  }

  void verifyInput(const Input *input) {
    std::string_view name = textOf(input->name());
    if (!inputNames.insert(name).second)
      fail("two inputs are named '%.*s'", (int)name.size(), name.data());
    if (input->streamed())
      placeNowhere("input", name, input->dtype(), input->shape());
    else
      place("input", name, input->dtype(), input->shape(), input->offset());
    int rank = static_cast<int>(items(input->shape()).size());
    if (input->batch_dim() < -1 || input->batch_dim() >= rank)
      fail("input '%.*s' has batch dimension %d of %d", (int)name.size(), name.data(), input->batch_dim(), rank);
    int64_t places = placesPerRank(program);
    if (!status.failed() && input->batch_dim() >= 0 && input->shape()->Get(input->batch_dim()) % places)
      fail("the batch of input '%.*s' is %lld, expected a multiple of %lld", (int)name.size(), name.data(),
           (long long)input->shape()->Get(input->batch_dim()), (long long)places);
    int64_t before = 1;
    for (int d = 0; !status.failed() && d < input->batch_dim(); ++d)
      before *= input->shape()->Get(static_cast<flatbuffers::uoffset_t>(d));
    if (input->streamed() && (input->batch_dim() < 0 || before != 1))
      fail("the samples of the streamed input '%.*s' do not follow one another", (int)name.size(), name.data());
    if (input->valid_begin() > input->valid_end())
      fail("input '%.*s' has an empty range of values", (int)name.size(), name.data());
  }

  void verifyScalar(const Scalar *scalar) {
    std::string_view name = textOf(scalar->name());
    place("scalar", name, scalar->dtype(), nullptr, scalar->offset());
    if (!isKnownScalar(name))
      fail("unknown scalar '%.*s', known are %s", (int)name.size(), name.data(), knownScalarNames().c_str());
  }

  void verifyHyperparameter(const Hyperparameter *parameter) {
    std::string_view name = textOf(parameter->name());
    for (const HyperparameterInfo &info : hyperparameterTable)
      if (name == info.name)
        return;
    fail("unknown hyperparameter '%.*s'", (int)name.size(), name.data());
  }

  void verifyGraph(const Graph *graph) {
    std::string_view name = textOf(graph->name());
    for (const Output *output : items(graph->outputs()))
      place("output", textOf(output->name()), output->dtype(), nullptr, output->offset());
    const Output *loss = findOutput(graph, "loss");
    if (name == "train" && !loss)
      fail("the graph 'train' has no output 'loss'");
    if (items(graph->inputs()).size())
      fail("the graph '%.*s' has inputs of its own", (int)name.size(), name.data());
    verifyCommands(graph->commands(), graph);
  }

  void verifyCommands(const flatbuffers::Vector<flatbuffers::Offset<Command>> *commands, const Graph *graph) {
    std::string_view name = textOf(graph->name());
    size_t index = 0;
    for (const Command *command : items(commands)) {
      if (status.failed())
        return;
      switch (command->body_type()) {
      case CommandBody::Launch:
        verifyLaunch(command->body_as_Launch());
        break;
      case CommandBody::Call:
        verifyCall(command->body_as_Call());
        break;
      case CommandBody::Copy:
        verifyCopy(command->body_as_Copy());
        break;
      case CommandBody::Fill:
        verifyFill(command->body_as_Fill());
        break;
      case CommandBody::CheckFinite:
        verifyCheck(command->body_as_CheckFinite());
        break;
      case CommandBody::Repeat:
        verifyRepeat(command->body_as_Repeat(), graph);
        break;
      case CommandBody::Conditional:
        verifyConditional(command->body_as_Conditional(), graph);
        break;
      case CommandBody::Collective:
        verifyCollective(command->body_as_Collective());
        break;
      case CommandBody::Wait: // verifyInFlight
        break;
      default:
        fail("command %zu of graph '%.*s' has unknown kind %d", index, (int)name.size(), name.data(),
             (int)command->body_type());
      }
      ++index;
    }
  }

  void verifyRepeat(const Repeat *repeat, const Graph *graph) {
    if (repeat->count() < 1)
      return fail("a repeat of %lld iterations", (long long)repeat->count());
    if (counts.size() == deepestRepeat)
      return fail("more than %zu repeats inside one another", deepestRepeat);
    if (repeat->index() && (repeat->index()->bytes() != 8 || repeat->index()->offset() % 8))
      return fail("the number of an iteration of %llu bytes at %llu", (unsigned long long)repeat->index()->bytes(),
                  (unsigned long long)repeat->index()->offset());
    verifyRange(repeat->index(), "the number of an iteration");
    counts.push_back(repeat->count());
    verifyCommands(repeat->commands(), graph);
    counts.pop_back();
  }

  void verifyConditional(const Conditional *conditional, const Graph *graph) {
    verifyRange(conditional->condition(), "a condition");
    if (!status.failed() && conditional->condition()->bytes() != 1)
      return fail("a condition of %llu bytes", (unsigned long long)conditional->condition()->bytes());
    for (const Command *command : items(conditional->commands()))
      if (command->body_type() != CommandBody::Launch)
        return fail("a command of kind %d depends on a condition", (int)command->body_type());
    verifyCommands(conditional->commands(), graph);
  }

  /// Whether the range is inside the arena in every iteration, on every rank.
  void verifyRange(const Range *range, const char *what) {
    if (!range)
      return fail("%s has no place", what);
    if (!aligned(range->strides()))
      return;
    size_t strides = items(range->strides()).size();
    if (strides && strides != counts.size())
      return fail("%s has %zu strides inside %zu repeats", what, strides, counts.size());
    if (range->space() != MemorySpace::device)
      return fail("%s lies in another memory", what);
    __int128 begin = range->offset(), end = begin + range->bytes();
    for (size_t k = 0; k < strides; ++k) {
      int64_t stride = range->strides()->Get(static_cast<flatbuffers::uoffset_t>(k));
      (stride < 0 ? begin : end) += static_cast<__int128>(stride) * (counts[k] - 1);
    }
    (range->rank_stride() < 0 ? begin : end) += static_cast<__int128>(range->rank_stride()) * (program->world() - 1);
    if (begin < 0 || end > program->arena_bytes())
      fail("%s lies outside the arena", what);
  }

  void ranges(const flatbuffers::Vector<flatbuffers::Offset<Range>> *buffers, std::string_view what) {
    size_t index = 0;
    for (const Range *range : items(buffers)) {
      std::string name = "buffer " + std::to_string(index++) + " of " + std::string(what);
      verifyRange(range, name.c_str());
    }
  }

  void verifyLaunch(const Launch *launch) {
    if (launch->kernel() >= items(program->kernels()).size())
      return fail("launch of kernel %u of %zu", launch->kernel(), items(program->kernels()).size());
    const Kernel *kernel = program->kernels()->Get(launch->kernel());
    std::string_view symbol = textOf(kernel->symbol());
    if (kernel->buffers() != items(launch->buffers()).size())
      fail("kernel '%.*s' takes %u buffers, a launch gives it %zu", (int)symbol.size(), symbol.data(),
           kernel->buffers(), items(launch->buffers()).size());
    bool isDevice = program->target() != Target::cpu;
    constexpr uint32_t mostBlocks = 0x7fffffff, mostThreads = 1024; // of every CUDA device
    if (isDevice ? !launch->grid() || launch->grid() > mostBlocks || !launch->block() || launch->block() > mostThreads
                 : launch->grid() || launch->block() || launch->shared())
      fail("launch of kernel %u as %u blocks of %u threads on %s", launch->kernel(), launch->grid(), launch->block(),
           EnumNameTarget(program->target()));
    if (launch->units() < 0 || launch->grain() < 1)
      fail("kernel '%.*s' is launched for %lld units in steps of %lld", (int)symbol.size(), symbol.data(),
           (long long)launch->units(), (long long)launch->grain());
    ranges(launch->buffers(), symbol);
  }

  void verifyCall(const Call *call) {
    std::string_view name = textOf(call->function());
    const LibraryFunction *function = findLibraryFunction(name);
    if (!function)
      return fail("unknown library function '%.*s', known are %s", (int)name.size(), name.data(),
                  libraryFunctionNames().c_str());
    ranges(call->buffers(), name);
    if (!isKnown(call->dtype()))
      fail("%.*s has unknown type %d", (int)name.size(), name.data(), (int)call->dtype());
    for (DType type : items(call->types()))
      if (!isKnown(type))
        fail("a buffer of %.*s has unknown type %d", (int)name.size(), name.data(), (int)type);
    if (!aligned(call->ints()) || !aligned(call->floats()) || status.failed())
      return;
    LibraryArguments arguments;
    std::vector<char *> pointers(items(call->buffers()).size());
    std::vector<uint64_t> lengths;
    for (const Range *range : items(call->buffers())) {
      // Pieces of tensors begin at any element. Of what has no type here it is that of the sums, at most.
      bool isTyped = lengths.size() < items(call->types()).size();
      DType type = isTyped ? call->types()->Get(static_cast<flatbuffers::uoffset_t>(lengths.size())) : call->dtype();
      uint64_t alignment = std::min<uint64_t>(elementBytes(type), range->bytes() & -range->bytes());
      lengths.push_back(range->bytes());
      bool isAligned = !range->bytes() || range->offset() % alignment == 0;
      for (int64_t stride : items(range->strides()))
        isAligned &= !range->bytes() || stride % static_cast<int64_t>(alignment) == 0;
      isAligned &= !range->bytes() || range->rank_stride() % static_cast<int64_t>(alignment) == 0;
      if (!isAligned)
        return fail("a buffer of %.*s is not aligned to %llu bytes", (int)name.size(), name.data(),
                    (unsigned long long)alignment);
    }
    arguments.buffers = pointers;
    arguments.bytes = lengths;
    setScalarArguments(arguments, *call, *program);
    Status checked = function->verify(arguments);
    std::string_view where = textOf(call->location());
    if (checked.failed())
      fail("%s (in %.*s)", checked.message().c_str(), (int)where.size(), where.data());
  }

  void verifyCheck(const CheckFinite *check) {
    std::string_view name = textOf(check->name());
    place("check of", name, check->dtype(), nullptr, check->offset());
    if (!isFloat(check->dtype()) || check->kind() > CheckKind::MAX || check->kind() < CheckKind::MIN)
      fail("the check of '%.*s' is of an unknown kind", (int)name.size(), name.data());
  }

  static bool moveAlike(const Range *source, const Range *target) {
    bool alike = items(source->strides()).size() == items(target->strides()).size();
    for (size_t k = 0; alike && k < items(source->strides()).size(); ++k)
      alike = source->strides()->Get(static_cast<flatbuffers::uoffset_t>(k)) ==
              target->strides()->Get(static_cast<flatbuffers::uoffset_t>(k));
    return alike;
  }

  void verifyCollective(const Collective *collective) {
    CollectiveKind kind = collective->kind();
    if (kind > CollectiveKind::MAX || kind < CollectiveKind::MIN)
      return fail("a collective of unknown kind %d", (int)kind);
    const char *what = EnumNameCollectiveKind(kind);
    DType type = collective->dtype(), wire = collective->wire();
    if (!isKnown(type))
      return fail("%s of unknown type %d", what, (int)type);
    bool isSum = kind == CollectiveKind::all_reduce_sum || kind == CollectiveKind::reduce_scatter;
    if (isSum && type == DType::i1)
      return fail("%s of %s", what, dtypeName(type));
    bool narrows = isSum && type == DType::f32 && (wire == DType::bf16 || wire == DType::f16);
    if (wire != type && !narrows)
      return fail("%s of %s sends type %d", what, dtypeName(type), (int)wire);
    if (collective->root() >= program->world())
      return fail("%s from rank %u of %u", what, collective->root(), program->world());
    if (collective->event() >= mostEvents)
      return fail("%s with the event %u", what, collective->event());
    const Range *source = collective->source(), *target = collective->target();
    verifyRange(source, (std::string("the source of ") + what).c_str());
    verifyRange(target, (std::string("the target of ") + what).c_str());
    if (status.failed())
      return;
    uint64_t ranks = program->world(), each = static_cast<uint64_t>(elementBytes(type));
    bool scatters = kind == CollectiveKind::reduce_scatter, gathers = kind == CollectiveKind::all_gather;
    const Range *longer = scatters ? source : target, *shorter = scatters ? target : source;
    bool hasParts = scatters || gathers;
    // Ranges are inside the arena, so products of their lengths do not overflow.
    if (longer->bytes() != shorter->bytes() * (hasParts ? ranks : 1) || shorter->bytes() % each)
      return fail("%s of %s from %llu to %llu bytes on %llu ranks", what, dtypeName(type),
                  (unsigned long long)source->bytes(), (unsigned long long)target->bytes(), (unsigned long long)ranks);
    for (const Range *range : {source, target}) {
      bool isAligned = range->offset() % each == 0 && range->rank_stride() % static_cast<int64_t>(each) == 0;
      for (int64_t stride : items(range->strides()))
        isAligned &= stride % static_cast<int64_t>(each) == 0;
      if (!isAligned)
        return fail("%s at bytes that are not aligned to %llu", what, (unsigned long long)each);
    }
    int64_t part = hasParts ? static_cast<int64_t>(shorter->bytes()) : 0;
    bool inPlace = longer->offset() == shorter->offset() && moveAlike(longer, shorter) && !longer->rank_stride() &&
                   shorter->rank_stride() == part;
    if (!inPlace && source->bytes() && mayOverlap(source, target, counts.size(), counts, program->world()))
      fail("%s between ranges that overlap", what);
  }

  void verifyFill(const Fill *fill) {
    const Input *input =
        fill->input() < items(program->inputs()).size() ? program->inputs()->Get(fill->input()) : nullptr;
    if (!input || !input->streamed())
      return fail("input %u is filled, which is none that is streamed", fill->input());
    std::string_view name = textOf(input->name());
    if (counts.size() != 1)
      return fail("input '%.*s' is filled inside %zu repeats, expected one", (int)name.size(), name.data(),
                  counts.size());
    int64_t places = placesPerRank(program), count = counts.back();
    if (fill->first() < 0 || fill->samples() < 1 || fill->samples() > places / count ||
        fill->first() > places - fill->samples() * count)
      return fail("input '%.*s' is filled %lld times with %lld samples from %lld on, of %lld", (int)name.size(),
                  name.data(), (long long)count, (long long)fill->samples(), (long long)fill->first(),
                  (long long)places);
    std::string what = "the target of input " + std::string(name);
    verifyRange(fill->target(), what.c_str());
    if (status.failed())
      return;
    uint64_t each = static_cast<uint64_t>(elementBytes(input->dtype()));
    uint64_t bytes = static_cast<uint64_t>(elementCount(input->shape()) / places * fill->samples()) * each;
    if (fill->target()->bytes() != bytes || fill->target()->offset() % each || items(fill->target()->strides()).size())
      fail("%s is not the bytes of %lld samples", what.c_str(), (long long)fill->samples());
  }

  void verifyCopy(const Copy *copy) {
    const Range *source = copy->source(), *target = copy->target();
    if (!source || !target || source->bytes() != target->bytes())
      return fail("a copy between ranges of different length");
    verifyRange(source, "the source of a copy");
    verifyRange(target, "the target of a copy");
    if (status.failed() || !source->bytes())
      return;
    // Where both move alike they are always as far apart.
    if (!moveAlike(source, target) || source->rank_stride() != target->rank_stride())
      return fail("a copy between ranges that move differently");
    if (source->offset() < target->offset() + target->bytes() && target->offset() < source->offset() + source->bytes())
      fail("a copy between ranges that overlap");
  }
};

} // namespace

Result<const Program *> verifyProgram(const ProgramImage &image) {
  if (reinterpret_cast<uintptr_t>(image.program) % 8)
    return Status::error("invalid program: it is not aligned to 8 bytes; recompile the model");
  flatbuffers::Verifier verifier(image.program, image.programBytes, /*max_depth=*/64, /*max_tables=*/1u << 26);
  if (image.programBytes < 16 || !VerifyProgramBuffer(verifier))
    return Status::error("invalid program: %llu bytes that are no FlatBuffer of this schema; recompile the model",
                         (unsigned long long)image.programBytes);
  const Program *program = GetProgram(image.program);
  if (Status status = ProgramVerifier(program, image).verify(); status.failed())
    return status;
  if (Status status = verifyInFlight(program); status.failed())
    return status;
  return program;
}

} // namespace scrimp::runtime
