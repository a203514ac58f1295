// Runs of a graph on a device whose memory is not the host's: what the host gives is staged, what it is told is copied at the
// end, and in between there is no branch, so that the device can record the list.
#include "scrimp/runtime/Executor.h"
#include <numeric>
#include <utility>

namespace scrimp::runtime {

/// The device looks at what checks look at: all commands run, and the host learns afterwards.
Status Executor::submitApart(bool goesOnAfterFailure) {
  if (!told[slot])
    if (Status status = reserveStaging(); status.failed())
      return status;
  stage(0, commands.size(), 1);
  Status status;
  if (goesOnAfterFailure)
    status = device.upload(device.checkResultAddress(), nothing, sizeof(CheckResult));
  if (!status.failed())
    status = walkOrReplay();
  return status.failed() ? status : device.mark(slot);
}

/// All commands, and what the host is told.
Status Executor::walk() {
  Status status = run(0, commands.size(), 0);
  auto tell = [&](void *target, const char *source, int64_t bytes) {
    if (!status.failed())
      status = device.downloadLater(static_cast<char *>(target), source, bytes);
  };
  tell(&told[slot]->found, device.checkResultAddress(), sizeof(CheckResult));
  for (flatbuffers::uoffset_t i = 0; i < items(outputs).size(); ++i)
    tell(told[slot]->outputs[i], arena + outputs->Get(i)->offset(), elementBytes(outputs->Get(i)->dtype()));
  return status;
}

/// The first run is not recorded: in it the library chooses how it computes.
Status Executor::walkOrReplay() {
  bool isWatched = trace || !measured.empty();
  bool mayRecord = device.canRecord() && (communicator.size() == 1 || communicator.canRecord());
  std::optional<int> &record = records[slot];
  if (isWatched || !mayRecord || !std::exchange(hasRun, true))
    return walk();
  if (record) {
    communicator.countReplay(recorded);
    return device.replay(*record);
  }
  Traffic before = communicator.traffic();
  Status status = device.startRecording();
  if (!status.failed())
    status = walk();
  Result<int> made = device.stopRecording(); // also after a failure, to be done with it
  if (status.failed() || made.failed())
    return status.failed() ? status : made.status();
  record = *made;
  const Traffic &after = communicator.traffic();
  recorded = {after.elements - before.elements, after.bytes - before.bytes, after.messages - before.messages, 0};
  return device.replay(*record);
}

Status Executor::reserveStaging() {
  int64_t most = 1;
  for (const Command &command : commands)
    if (command.kind == Kind::repeat)
      most = std::max(most, command.units);
  Status status;
  auto reserve = [&](uint64_t bytes) -> char * {
    Result<char *> memory = device.allocateHost(bytes);
    if (memory.failed())
      status = memory.status();
    return memory.failed() ? nullptr : *memory;
  };
  told[slot] = reinterpret_cast<Told *>(reserve(sizeof(Told) + items(outputs).size() * sizeof(double)));
  if (!iterations && !status.failed()) {
    nothing = reinterpret_cast<CheckResult *>(reserve(sizeof(CheckResult)));
    iterations = reinterpret_cast<int64_t *>(reserve(static_cast<uint64_t>(most) * sizeof(int64_t)));
    if (!status.failed()) {
      *nothing = {};
      std::iota(iterations, iterations + most, 0);
    }
  }
  return status.failed() ? status : reserveStaging(0, commands.size(), 1);
}

Status Executor::reserveStaging(size_t first, size_t last, int64_t count) {
  for (size_t i = first; i < last; ++i) {
    Command &command = commands[i];
    if (command.kind == Kind::repeat) {
      if (Status status = reserveStaging(i + 1, command.end, command.units); status.failed())
        return status;
      i = command.end - 1;
    }
    if (command.kind != Kind::fill)
      continue;
    Result<char *> memory = device.allocateHost(lengths[command.firstPointer] * static_cast<uint64_t>(count));
    if (memory.failed())
      return memory.status();
    command.staged[slot] = *memory;
  }
  return Status::ok();
}

/// Reads what commands are to fill in, before they run.
void Executor::stage(size_t first, size_t last, int64_t count) {
  for (size_t i = first; i < last; ++i) {
    const Command &command = commands[i];
    if (command.kind == Kind::repeat) {
      stage(i + 1, command.end, command.units);
      i = command.end - 1;
    }
    for (int64_t k = 0; command.kind == Kind::fill && k < count; ++k)
      source->read(command.input, command.firstPlace + k * command.units, command.units,
                   command.staged[slot] + k * static_cast<int64_t>(lengths[command.firstPointer]));
  }
}

} // namespace scrimp::runtime
