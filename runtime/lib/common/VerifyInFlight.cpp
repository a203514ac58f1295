// Walks every list with the collectives that are under way.
#include "VerifyInFlight.h"
#include <set>

namespace scrimp::runtime {

using namespace program;

static int64_t strideOf(const Place &place, size_t k) {
  return k < items(place.strides).size() ? place.strides->Get(static_cast<flatbuffers::uoffset_t>(k)) : 0;
}

bool mayOverlap(const Place &a, const Place &b, size_t shared, const std::vector<int64_t> &counts, uint32_t world) {
  if (!a.bytes || !b.bytes)
    return false;
  // Where b begins, seen from a: the least and the largest.
  __int128 least = static_cast<__int128>(b.offset) - static_cast<__int128>(a.offset), largest = least;
  auto move = [&](__int128 stride, int64_t count) { (stride < 0 ? least : largest) += stride * (count - 1); };
  for (size_t k = 0; k < counts.size(); ++k)
    move(static_cast<__int128>(strideOf(b, k)) - (k < shared ? strideOf(a, k) : 0), counts[k]);
  move(static_cast<__int128>(b.rankStride) - a.rankStride, world);
  return least < static_cast<__int128>(a.bytes) && largest + static_cast<__int128>(b.bytes) > 0;
}

namespace {
class InFlightVerifier {
public:
  explicit InFlightVerifier(const Program *program) : program(program) {}

  Status verify() {
    for (const Graph *graph : items(program->graphs()))
      verifyList(graph->commands());
    return status;
  }

private:
  using Commands = flatbuffers::Vector<flatbuffers::Offset<Command>>;
  using Flights = std::vector<const Collective *>;

  const Program *program;
  Status status;
  std::vector<int64_t> counts; // of the repeats around the command under way
  std::set<uint32_t> events;   // under way, in lists around too

  void fail(const std::string &text) {
    if (!status.failed())
      status = Status::error("invalid program: %s; recompile the model", text.c_str());
  }

  static std::string nameOf(const Collective *collective) {
    return format("%s '%s' (event %u)", EnumNameCollectiveKind(collective->kind()),
                  std::string(textOf(collective->location())).c_str(), collective->event());
  }

  void verifyList(const Commands *list) {
    Flights flights;
    for (const Command *command : items(list)) {
      if (status.failed())
        return;
      if (const Wait *wait = command->body_as_Wait()) {
        auto found = flights.begin();
        while (found != flights.end() && (*found)->event() != wait->event())
          ++found;
        if (found == flights.end())
          return fail(format("a wait for event %u, which this list has not started", wait->event()));
        events.erase(wait->event());
        flights.erase(found);
        continue;
      }
      if (!flights.empty())
        checkTouches(command, flights, counts.size());
      if (const Collective *collective = command->body_as_Collective()) {
        if (!events.insert(collective->event()).second)
          return fail(nameOf(collective) + " starts while its event is under way");
        flights.push_back(collective);
      } else if (const Repeat *repeat = command->body_as_Repeat()) {
        counts.push_back(repeat->count());
        verifyList(repeat->commands());
        counts.pop_back();
      } else if (const Conditional *conditional = command->body_as_Conditional()) {
        verifyList(conditional->commands());
      }
    }
    if (!flights.empty())
      fail(nameOf(flights.front()) + " is not waited for in its list");
  }

  /// Checks all that the command touches, those inside it included, against what its list has under way. `shared` is
  /// the number of repeats around the list.
  void checkTouches(const Command *command, const Flights &flights, size_t shared) {
    auto touch = [&](const Place &place, bool writes, std::string_view what) {
      for (const Collective *flight : flights) {
        bool meetsTarget = mayOverlap(flight->target(), place, shared, counts, program->world());
        bool meetsSource = mayOverlap(flight->source(), place, shared, counts, program->world());
        if (meetsTarget || (meetsSource && writes))
          fail(format("%.*s %s the %s of %s before its wait", (int)what.size(), what.data(),
                      meetsTarget ? "touches" : "writes", meetsTarget ? "target" : "source", nameOf(flight).c_str()));
      }
    };
    auto touchAll = [&](const flatbuffers::Vector<flatbuffers::Offset<Range>> *buffers, uint32_t reads,
                        std::string_view what) {
      uint32_t index = 0;
      for (const Range *range : items(buffers))
        touch(range, index++ >= reads, what);
    };
    auto inside = [&](const Commands *list) {
      for (const Command *each : items(list))
        checkTouches(each, flights, shared);
    };
    if (const Launch *launch = command->body_as_Launch()) {
      touchAll(launch->buffers(), launch->reads(), textOf(program->kernels()->Get(launch->kernel())->symbol()));
    } else if (const Call *call = command->body_as_Call()) {
      touchAll(call->buffers(), call->reads(), textOf(call->function()));
    } else if (const Copy *copy = command->body_as_Copy()) {
      touch(copy->source(), false, "a copy");
      touch(copy->target(), true, "a copy");
    } else if (const Fill *fill = command->body_as_Fill()) {
      touch(fill->target(), true, "what is read");
    } else if (const CheckFinite *check = command->body_as_CheckFinite()) {
      touch({check->offset(), static_cast<uint64_t>(elementBytes(check->dtype()))}, false, "a check");
    } else if (const Collective *collective = command->body_as_Collective()) {
      touch(collective->source(), false, nameOf(collective));
      touch(collective->target(), true, nameOf(collective));
    } else if (const Repeat *repeat = command->body_as_Repeat()) {
      touch(repeat->index(), true, "the number of an iteration");
      counts.push_back(repeat->count());
      inside(repeat->commands());
      counts.pop_back();
    } else if (const Conditional *conditional = command->body_as_Conditional()) {
      touch(conditional->condition(), false, "a condition");
      inside(conditional->commands());
    }
  }
};
} // namespace

Status verifyInFlight(const Program *program) { return InFlightVerifier(program).verify(); }

} // namespace scrimp::runtime
