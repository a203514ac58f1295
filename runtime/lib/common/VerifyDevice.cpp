#include "VerifyDevice.h"

namespace scrimp::runtime {

using namespace program;

static std::string findImageFault(const Program *program) {
  bool isCuda = program->target() == Target::cuda;
  size_t count = items(program->images()).size();
  if (isCuda != (count > 0))
    return format("%zu images of kernels for %s", count, EnumNameTarget(program->target()));
  for (const DeviceImage *image : items(program->images())) {
    size_t bytes = items(image->data()).size();
    if (image->capability() < 10 || image->capability() > 9999 || bytes == 0)
      return format("an image of %zu bytes for sm_%d", bytes, image->capability());
    if (image->is_ptx() && image->data()->Get(static_cast<flatbuffers::uoffset_t>(bytes) - 1))
      return "PTX that does not end";
  }
  return "";
}

/// Whether the range, in some iteration or on some rank, has bytes of a segment of what lives across steps. A range
/// that moves is taken for all that it may be.
static bool livesAcrossSteps(const Program *program, const Range *range) {
  bool moves = range->rank_stride() != 0;
  for (int64_t stride : items(range->strides()))
    moves |= stride != 0;
  for (const Segment *segment : items(program->segments())) {
    bool lives = segment->kind() == SegmentKind::parameters || segment->kind() == SegmentKind::optimizer_state;
    bool meets = range->offset() < segment->offset() + segment->bytes() &&
                 (moves ? range->offset() >= segment->offset() : segment->offset() < range->offset() + range->bytes());
    if (lives && range->bytes() && meets)
      return true;
  }
  return false;
}

std::string findDeviceFault(const Program *program) {
  if (std::string fault = findImageFault(program); !fault.empty() || program->target() == Target::cpu)
    return fault;
  std::string fault;
  for (const Graph *graph : items(program->graphs())) {
    bool isChecked = false;
    auto requireNothingLasting = [&](const Range *range, const char *what) {
      if (isChecked && livesAcrossSteps(program, range))
        fault = format("%s behind a check writes what lives across steps", what);
    };
    forEachCommand(graph->commands(), [&](const Command *command) {
      if (const CheckFinite *check = command->body_as_CheckFinite()) {
        isChecked = true;
        if (check->kernel() >= items(program->kernels()).size() ||
            program->kernels()->Get(check->kernel())->buffers() != 2)
          fault = format("kernel %u looks at the check of '%s'", check->kernel(), textOf(check->name()).data());
      }
      if (const Call *call = command->body_as_Call())
        for (size_t i = call->reads(); i < items(call->buffers()).size(); ++i)
          requireNothingLasting(call->buffers()->Get(static_cast<flatbuffers::uoffset_t>(i)), "a library call");
      if (const Copy *copy = command->body_as_Copy())
        requireNothingLasting(copy->target(), "a copy");
    });
  }
  return fault;
}

} // namespace scrimp::runtime
