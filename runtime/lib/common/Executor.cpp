// Prepares and walks a command list.
#include "scrimp/runtime/Executor.h"
#include "scrimp/runtime/Clock.h"
#include <cmath>
#include <cstring>

namespace scrimp::runtime {

using namespace program;

/// Calls `visit` for each range of the commands, those inside others included, in the order of their pointers.
template <typename Visit>
static void forEachRange(const flatbuffers::Vector<flatbuffers::Offset<Command>> *list, Visit visit) {
  for (const Command *command : items(list)) {
    if (const Launch *launch = command->body_as_Launch()) {
      for (const Range *range : items(launch->buffers()))
        visit(range);
    } else if (const Call *call = command->body_as_Call()) {
      for (const Range *range : items(call->buffers()))
        visit(range);
    } else if (const Copy *copy = command->body_as_Copy()) {
      visit(copy->target());
      visit(copy->source());
    } else if (const Fill *fill = command->body_as_Fill()) {
      visit(fill->target());
    } else if (const Repeat *repeat = command->body_as_Repeat()) {
      visit(repeat->index());
      forEachRange(repeat->commands(), visit);
    } else if (const Collective *collective = command->body_as_Collective()) {
      visit(collective->source());
      visit(collective->target());
    } else if (const Conditional *conditional = command->body_as_Conditional()) {
      visit(conditional->condition());
      forEachRange(conditional->commands(), visit);
    }
  }
}

Executor::Executor(const Program *program, const Graph *graph, const scrimp_kernel *kernels, char *arena,
                   Device &device, Communicator &communicator, BatchSource *source)
    : arena(arena), device(device), communicator(communicator), source(source) {
  size_t count = 0;
  forEachRange(graph->commands(), [&](const Range *) { ++count; });
  // Spans into these vectors are kept: they must not grow again.
  pointers.reserve(count);
  lengths.reserve(count);
  prepare(program, graph->commands(), kernels);
}

void Executor::addPointer(const Range *range) {
  if (range->strides())
    for (size_t k = 0; k < open.size(); ++k)
      if (int64_t stride = range->strides()->Get(static_cast<flatbuffers::uoffset_t>(k)))
        open[k].push_back({pointers.size(), stride});
  pointers.push_back(arena + static_cast<int64_t>(range->offset()) + range->rank_stride() * communicator.rank());
  lengths.push_back(range->bytes());
}

void Executor::prepare(const Program *program, const Commands *list, const scrimp_kernel *kernels) {
  for (const program::Command *command : items(list)) {
    size_t index = commands.size();
    Command prepared;
    prepared.firstPointer = pointers.size();
    prepared.source = command;
    if (const Launch *launch = command->body_as_Launch()) {
      prepared.kind = Kind::launch;
      for (const Range *range : items(launch->buffers()))
        addPointer(range);
      size_t size = pointers.size() - prepared.firstPointer;
      prepared.launch = {kernels[launch->kernel()],
                         {pointers.data() + prepared.firstPointer, size},
                         {lengths.data() + prepared.firstPointer, size},
                         launch->units(),
                         launch->grain(),
                         launch->grid(),
                         launch->block(),
                         textOf(launch->location())};
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
      prepare(program, repeat->commands(), kernels);
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
      prepare(program, conditional->commands(), kernels);
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
      prepared.check = command->body_as_CheckFinite();
    }
    commands.push_back(prepared);
  }
}

Result<const CheckFinite *> Executor::run() {
  failed = nullptr;
  Status status = run(0, commands.size(), 0);
  // A check that ended the list has left out waits.
  if (!status.failed() && failed)
    status = communicator.waitAll();
  if (status.failed())
    return status;
  return failed;
}

/// Starts a collective or waits for one.
Status Executor::communicate(const Command &command) {
  if (command.kind == Kind::wait)
    return communicator.wait(started[command.event]);
  CollectiveCall call = command.collective;
  call.source = pointers[command.firstPointer];
  call.target = pointers[command.firstPointer + 1];
  return communicator.start(call, started[command.event]);
}

/// Where ranks may see different values, what one of them finds stops all.
Status Executor::check(const CheckFinite *check) {
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
    device.call(*command.function, command.arguments);
  else
    device.copy(pointers[command.firstPointer], pointers[command.firstPointer + 1], command.units);
  return Status::ok();
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
      source->read(command.input, command.firstPlace + iteration * command.units, command.units,
                   pointers[command.firstPointer]);
      status = communicator.progress();
      break;
    case Kind::collective:
    case Kind::wait:
      status = communicate(command);
      if (trace)
        trace->relate(span, started[command.event]);
      break;
    case Kind::check:
      status = check(command.check);
      break;
    case Kind::repeat:
      status = repeat(i);
      i = command.end - 1;
      break;
    case Kind::conditional:
      // The commands that it holds come next.
      if (!*pointers[command.firstPointer])
        i = command.end - 1;
      break;
    }
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
    memcpy(pointers[command.firstPointer], &done, sizeof(done));
    TraceSpan span(trace, "iteration", "iteration", done);
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

double Executor::output(const Output *output) const {
  return loadElement(output->dtype(), arena + output->offset(), 0);
}

double Executor::checked(const CheckFinite *check) const {
  return loadElement(check->dtype(), arena + check->offset(), 0);
}

} // namespace scrimp::runtime
