// --profile: where the time of a run's steps went.
#ifndef SCRIMP_RUNTIME_PROFILE_H
#define SCRIMP_RUNTIME_PROFILE_H

#include "scrimp/runtime/Executor.h"
#include <string>

namespace scrimp::runtime {

/// Two tables of milliseconds a step: by what computed it (each library function, kernels), and by the user's name for what
/// was computed, largest first, `most` of them. Beside them what the compiler expected, where it did. `seconds` is all
/// that the steps took; what is no command's (filling batches, the loop) is a line of its own.
std::string profileText(const std::vector<CommandTiming> &timings, int64_t steps, double seconds, size_t most = 30);

} // namespace scrimp::runtime

#endif
