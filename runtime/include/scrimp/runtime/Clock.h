// The clock by which runs, waits and commands are measured.
#ifndef SCRIMP_RUNTIME_CLOCK_H
#define SCRIMP_RUNTIME_CLOCK_H

#include <chrono>

namespace scrimp::runtime {

/// Seconds since a moment of this machine's own; never goes back.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace scrimp::runtime

#endif
