// Prepares and walks a command list.
#include "scrimp/runtime/Executor.h"
#include <cmath>

namespace scrimp::runtime {

using namespace program;

Executor::Executor(const Program *program, const Graph *graph, const scrimp_kernel *kernels, char *arena,
                   ThreadPool &pool)
    : arena(arena), pool(pool) {
  size_t count = 0;
  for (const program::Command *command : items(graph->commands())) {
    if (const Launch *launch = command->body_as_Launch())
      count += items(launch->buffers()).size();
    else if (const Call *call = command->body_as_Call())
      count += items(call->buffers()).size();
    else if (command->body_as_Copy())
      count += 2;
  }
  // Spans into these vectors are kept: they must not grow again.
  pointers.reserve(count);
  lengths.reserve(count);
  commands.reserve(items(graph->commands()).size());
  auto add = [&](const Range *range) {
    pointers.push_back(arena + range->offset());
    lengths.push_back(range->bytes());
  };
  for (const program::Command *command : items(graph->commands())) {
    Command prepared;
    prepared.firstPointer = pointers.size();
    if (const Launch *launch = command->body_as_Launch()) {
      prepared.kind = Kind::launch;
      prepared.kernel = kernels[launch->kernel()];
      prepared.units = launch->units();
      prepared.grain = launch->grain();
      for (const Range *range : items(launch->buffers()))
        add(range);
    } else if (const Call *call = command->body_as_Call()) {
      prepared.kind = Kind::call;
      prepared.function = findLibraryFunction(textOf(call->function()));
      for (const Range *range : items(call->buffers()))
        add(range);
      size_t size = pointers.size() - prepared.firstPointer;
      LibraryArguments &arguments = prepared.arguments;
      arguments.buffers = {pointers.data() + prepared.firstPointer, size};
      arguments.bytes = {lengths.data() + prepared.firstPointer, size};
      if (call->ints())
        arguments.ints = {call->ints()->data(), call->ints()->size()};
      if (call->floats())
        arguments.floats = {call->floats()->data(), call->floats()->size()};
      arguments.dtype = call->dtype();
      arguments.workers = program->workers();
    } else if (const Copy *copy = command->body_as_Copy()) {
      prepared.kind = Kind::copy;
      prepared.units = static_cast<int64_t>(copy->source()->bytes());
      add(copy->target());
      add(copy->source());
    } else {
      prepared.check = command->body_as_CheckFinite();
    }
    commands.push_back(prepared);
  }
}

const CheckFinite *Executor::run() {
  for (const Command &command : commands) {
    char *const *buffers = pointers.data() + command.firstPointer;
    switch (command.kind) {
    case Kind::launch: {
      auto body = [&](int64_t begin, int64_t end, int) { command.kernel(buffers, begin, end); };
      pool.parallelFor(command.units, command.grain, body);
      break;
    }
    case Kind::call:
      command.function->run(command.arguments, pool);
      break;
    case Kind::copy: {
      auto body = [&](int64_t begin, int64_t end, int) {
        memcpy(buffers[0] + begin, buffers[1] + begin, static_cast<size_t>(end - begin));
      };
      pool.parallelFor(command.units, 1 << 18, body);
      break;
    }
    case Kind::check:
      if (!std::isfinite(checked(command.check)))
        return command.check;
      break;
    }
  }
  return nullptr;
}

double Executor::output(const Output *output) const {
  return loadElement(output->dtype(), arena + output->offset(), 0);
}

double Executor::checked(const CheckFinite *check) const {
  return loadElement(check->dtype(), arena + check->offset(), 0);
}

} // namespace scrimp::runtime
