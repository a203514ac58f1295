// Prepares and walks a command list.
#include "scrimp/runtime/Executor.h"
#include "scrimp/runtime/Clock.h"
#include <cmath>
#include <cstring>

namespace scrimp::runtime {

using namespace program;

/// How many pointers the commands have at most, those inside others included.
static size_t countPointers(const flatbuffers::Vector<flatbuffers::Offset<Command>> *list) {
  constexpr size_t ofLaunch = 2, ofCheck = 4; // what devices look at
  size_t count = 0;
  for (const Command *command : items(list)) {
    if (const Launch *launch = command->body_as_Launch())
      count += items(launch->buffers()).size() + ofLaunch;
    else if (const Call *call = command->body_as_Call())
      count += items(call->buffers()).size();
    else if (command->body_as_Copy() || command->body_as_Collective())
      count += 2;
    else if (command->body_as_Fill())
      count += 1;
    else if (command->body_as_CheckFinite())
      count += ofCheck;
    else if (const Repeat *repeat = command->body_as_Repeat())
      count += 1 + countPointers(repeat->commands());
    else if (const Conditional *conditional = command->body_as_Conditional())
      count += 1 + countPointers(conditional->commands());
  }
  return count;
}

Executor::Executor(const Program *program, const Graph *graph, const scrimp_kernel *kernels, char *arena,
                   Device &device, Communicator &communicator, BatchSource *source)
    : arena(arena), device(device), isApart(!device.sharesMemory()), communicator(communicator), source(source),
      kernels(kernels), outputs(graph->outputs()) {
  size_t count = countPointers(graph->commands());
  // Spans into these vectors are kept: they must not grow again.
  pointers.reserve(count);
  lengths.reserve(count);
  prepare(program, graph->commands());
}

void Executor::addPointer(const Range *range) {
  if (range->strides())
    for (size_t k = 0; k < open.size(); ++k)
      if (int64_t stride = range->strides()->Get(static_cast<flatbuffers::uoffset_t>(k)))
        open[k].push_back({pointers.size(), stride});
  pointers.push_back(arena + static_cast<int64_t>(range->offset()) + range->rank_stride() * communicator.rank());
  lengths.push_back(range->bytes());
}

void Executor::addPointer(char *address, uint64_t bytes) {
  pointers.push_back(address);
  lengths.push_back(bytes);
}

/// On a device what comes behind a check depends on what it finds.
void Executor::prepareLaunch(Command &prepared, const Launch *launch) {
  prepared.kind = Kind::launch;
  for (const Range *range : items(launch->buffers()))
    addPointer(range);
  if (isApart) {
    addPointer(checks.empty() ? nullptr : device.checkResultAddress(), checks.empty() ? 0 : sizeof(CheckResult));
    if (condition)
      addPointer(condition);
    else
      addPointer(nullptr, 0);
  }
  size_t size = pointers.size() - prepared.firstPointer;
  prepared.launch = {kernels ? kernels[launch->kernel()] : nullptr,
                     launch->kernel(),
                     {pointers.data() + prepared.firstPointer, size},
                     {lengths.data() + prepared.firstPointer, size},
                     launch->units(),
                     launch->grain(),
                     launch->grid(),
                     launch->block(),
                     launch->shared(),
                     textOf(launch->location())};
}

void Executor::prepareCheck(Command &prepared, const CheckFinite *check) {
  prepared.check = check;
  if (!isApart)
    return;
  addPointer(arena + check->offset(), static_cast<uint64_t>(elementBytes(check->dtype())));
  addPointer(device.checkResultAddress(), sizeof(CheckResult));
  addPointer(nullptr, 0);
  addPointer(nullptr, 0);
  checks.push_back(check);
  prepared.launch = {kernels ? kernels[check->kernel()] : nullptr,
                     check->kernel(),
                     {pointers.data() + prepared.firstPointer, 4},
                     {lengths.data() + prepared.firstPointer, 4},
                     static_cast<int64_t>(checks.size()),
                     1,
                     1,
                     1,
                     0,
                     textOf(check->name())};
}

void Executor::prepare(const Program *program, const Commands *list) {
  for (const program::Command *command : items(list)) {
    size_t index = commands.size();
    Command prepared;
    prepared.firstPointer = pointers.size();
    prepared.source = command;
    if (const Launch *launch = command->body_as_Launch()) {
      prepareLaunch(prepared, launch);
    } else if (const Call *call = command->body_as_Call()) {
      prepared.kind = Kind::call;
      prepared.function = findLibraryFunction(textOf(call->function()));
      for (const Range *range : items(call->buffers()))
        addPointer(range);
      size_t size = pointers.size() - prepared.firstPointer;
      LibraryArguments &arguments = prepared.arguments;
      arguments.buffers = {pointers.data() + prepared.firstPointer, size};
      arguments.bytes = {lengths.data() + prepared.firstPointer, size};
      setScalarArguments(arguments, *call, *program);
    } else if (const Copy *copy = command->body_as_Copy()) {
      prepared.kind = Kind::copy;
      prepared.units = static_cast<int64_t>(copy->source()->bytes());
      addPointer(copy->target());
      addPointer(copy->source());
    } else if (const Fill *fill = command->body_as_Fill()) {
      prepared.kind = Kind::fill;
      prepared.input = program->inputs()->Get(fill->input());
      prepared.units = fill->samples();
      prepared.firstPlace = fill->first();
      addPointer(fill->target());
    } else if (const Repeat *repeat = command->body_as_Repeat()) {
      prepared.kind = Kind::repeat;
      prepared.units = repeat->count();
      addPointer(repeat->index());
      commands.push_back(prepared);
      open.emplace_back();
      prepare(program, repeat->commands());
      commands[index].firstMove = moves.size();
      moves.insert(moves.end(), open.back().begin(), open.back().end());
      commands[index].lastMove = moves.size();
      open.pop_back();
      commands[index].end = commands.size();
      continue;
    } else if (const Conditional *conditional = command->body_as_Conditional()) {
      prepared.kind = Kind::conditional;
      addPointer(conditional->condition());
      commands.push_back(prepared);
      condition = conditional->condition();
      prepare(program, conditional->commands());
      condition = nullptr;
      commands[index].end = commands.size();
      continue;
    } else if (const Collective *collective = command->body_as_Collective()) {
      prepared.kind = Kind::collective;
      prepared.event = collective->event();
      started.resize(std::max<size_t>(started.size(), collective->event() + 1));
      prepared.collective = callOf(collective);
      addPointer(collective->source());
      addPointer(collective->target());
    } else if (const Wait *wait = command->body_as_Wait()) {
      prepared.kind = Kind::wait;
      prepared.event = wait->event();
      for (const Command &earlier : commands)
        if (earlier.kind == Kind::collective && earlier.event == prepared.event)
          prepared.collective = earlier.collective;
    } else {
      prepareCheck(prepared, command->body_as_CheckFinite());
    }
    commands.push_back(prepared);
  }
}

Result<const CheckFinite *> Executor::run() {
  if (Status status = submit(); status.failed())
    return status;
  return finish();
}

Status Executor::submit(int newSlot, bool goesOnAfterFailure) {
  failed = nullptr;
  slot = newSlot;
  if (isApart)
    return submitApart(goesOnAfterFailure);
  Status status = run(0, commands.size(), 0);
  // A check that ended the list has left out waits.
  return !status.failed() && failed ? communicator.waitAll() : status;
}

Result<const CheckFinite *> Executor::finish(int newSlot) {
  slot = newSlot;
  if (!isApart)
    return failed;
  if (Status status = device.wait(slot); status.failed())
    return status;
  int64_t number = told[slot]->found.number;
  failed = number ? checks[static_cast<size_t>(number) - 1] : nullptr;
  return failed;
}

/// Starts a collective or waits for one.
Status Executor::communicate(const Command &command) {
  if (command.kind == Kind::wait)
    return communicator.wait(started[command.event]);
  CollectiveCall call = command.collective;
  call.source = device.forCommunicator(pointers[command.firstPointer]);
  call.target = device.forCommunicator(pointers[command.firstPointer + 1]);
  return communicator.start(call, started[command.event]);
}

/// Where ranks may see different values, what one of them finds stops all.
Status Executor::check(const Command &command) {
  const CheckFinite *check = command.check;
  if (isApart) {
    Status status = device.launch(command.launch);
    if (status.failed() || check->agreed() || communicator.size() == 1)
      return status;
    CollectiveCall largest;
    largest.kind = CollectiveKind::all_reduce_max;
    largest.dtype = largest.wire = DType::i64;
    largest.elements = 1;
    largest.source = largest.target = device.forCommunicator(device.checkResultAddress());
    largest.name = textOf(check->name());
    largest.isCounted = false;
    Communicator::Handle handle;
    if (status = communicator.start(largest, handle); status.failed())
      return status;
    return communicator.wait(handle);
  }
  int64_t bad = !std::isfinite(checked(check));
  if (!check->agreed())
    if (Status status = communicator.agree(bad); status.failed())
      return status;
  if (bad)
    failed = check;
  return Status::ok();
}

/// A launch, a call or a copy.
Status Executor::compute(const Command &command) {
  if (command.kind == Kind::launch)
    return device.launch(command.launch);
  if (command.kind == Kind::call)
    return device.call(*command.function, command.arguments);
  return device.copy(pointers[command.firstPointer], pointers[command.firstPointer + 1], command.units);
}

void Executor::startProfile() { measured.resize(commands.size()); }

/// What a command is called, and what the compiler expects of one run.
CommandTiming Executor::describe(const Command &command) {
  const program::Command *source = command.source;
  switch (command.kind) {
  case Kind::launch:
    return {"kernel", textOf(source->body_as_Launch()->location()), 0, source->body_as_Launch()->seconds()};
  case Kind::call: {
    const Call *call = source->body_as_Call();
    return {textOf(call->function()), textOf(call->location()), 0, call->seconds()};
  }
  case Kind::copy:
    return {"copy", ""};
  case Kind::fill:
    return {"read", textOf(command.input->name())};
  case Kind::check:
    return {"check", textOf(command.check->name())};
  case Kind::repeat:
    return {"repeat", textOf(source->body_as_Repeat()->location())};
  case Kind::conditional:
    return {"conditional", textOf(source->body_as_Conditional()->location())};
  case Kind::collective:
    return {EnumNameCollectiveKind(command.collective.kind), command.collective.name};
  case Kind::wait:
    return {"wait", command.collective.name};
  }
  return {};
}

std::vector<CommandTiming> Executor::getProfile() const {
  std::vector<CommandTiming> timings;
  for (size_t i = 0; i < measured.size(); ++i) {
    Kind kind = commands[i].kind;
    // The time of those is that of the commands that they hold, or none.
    if (kind == Kind::check || kind == Kind::repeat || kind == Kind::conditional)
      continue;
    CommandTiming timing = describe(commands[i]);
    timing.seconds = measured[i].seconds;
    timing.runs = measured[i].runs;
    timing.expected *= static_cast<double>(timing.runs);
    timings.push_back(timing);
  }
  return timings;
}

Trace::Index Executor::openSpan(const Command &command) {
  CommandTiming timing = describe(command);
  return trace->open(timing.what, timing.where, -1, timing.expected);
}

Status Executor::run(size_t first, size_t last, int64_t iteration) {
  for (size_t i = first; i < last && !failed; ++i) {
    const Command &command = commands[i];
    size_t at = i;
    Status status;
    double start = measured.empty() ? 0 : now();
    Trace::Index span = trace ? openSpan(command) : Trace::none;
    switch (command.kind) {
    case Kind::launch:
    case Kind::call:
    case Kind::copy:
      status = compute(command);
      if (!status.failed())
        status = communicator.progress();
      break;
    case Kind::fill:
      if (isApart)
        status = device.upload(pointers[command.firstPointer],
                               command.staged[slot] + iteration * static_cast<int64_t>(lengths[command.firstPointer]),
                               static_cast<int64_t>(lengths[command.firstPointer]));
      else
        source->read(command.input, command.firstPlace + iteration * command.units, command.units,
                     pointers[command.firstPointer]);
      if (!status.failed())
        status = communicator.progress();
      break;
    case Kind::collective:
    case Kind::wait:
      status = communicate(command);
      if (trace)
        trace->relate(span, started[command.event]);
      break;
    case Kind::check:
      status = check(command);
      break;
    case Kind::repeat:
      status = repeat(i);
      i = command.end - 1;
      break;
    case Kind::conditional:
      // The commands that it holds come next; on a device their launches look themselves.
      if (!isApart && !*pointers[command.firstPointer])
        i = command.end - 1;
      break;
    }
    if (!status.failed() && isApart && (trace || !measured.empty()))
      status = device.synchronize();
    if (trace)
      trace->close(span);
    if (status.failed())
      return status;
    if (!measured.empty()) {
      measured[at].seconds += now() - start;
      ++measured[at].runs;
    }
  }
  return Status::ok();
}

/// Pointers are at their first iteration's bytes before and after, also where a check ends the graph.
Status Executor::repeat(size_t index) {
  const Command &command = commands[index];
  Status status;
  int64_t done = 0;
  for (; done < command.units && !failed && !status.failed(); ++done) {
    if (isApart)
      status = device.upload(pointers[command.firstPointer], iterations + done, sizeof(done));
    else
      memcpy(pointers[command.firstPointer], &done, sizeof(done));
    TraceSpan span(trace, "iteration", "iteration", done);
    if (!status.failed())
      status = run(index + 1, command.end, done);
    move(command, 1);
  }
  move(command, -done);
  return status;
}

void Executor::move(const Command &repeat, int64_t iterations) {
  for (size_t m = repeat.firstMove; m < repeat.lastMove; ++m)
    pointers[moves[m].pointer] += moves[m].stride * iterations;
}

Result<double> Executor::output(const Output *output) const {
  if (!isApart)
    return loadElement(output->dtype(), arena + output->offset(), 0);
  for (flatbuffers::uoffset_t i = 0; i < items(outputs).size(); ++i)
    if (outputs->Get(i) == output)
      return loadElement(output->dtype(), told[slot]->outputs[i], 0);
  return Status::error("the graph has no output '%s'", output->name()->c_str());
}

double Executor::checked(const CheckFinite *check) const {
  if (isApart)
    return check == failed ? told[slot]->found.value : 0;
  return loadElement(check->dtype(), arena + check->offset(), 0);
}

} // namespace scrimp::runtime
