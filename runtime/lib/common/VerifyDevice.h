// What is asked of a program beside the rest where a device of its own memory runs it.
#ifndef SCRIMP_RUNTIME_LIB_COMMON_VERIFYDEVICE_H
#define SCRIMP_RUNTIME_LIB_COMMON_VERIFYDEVICE_H

#include "scrimp/runtime/Program.h"

namespace scrimp::runtime {

/// What is wrong with a program whose tables and ranges have been verified, or nothing: it holds images where a CUDA device
/// runs it and nowhere else; a check has a kernel; and since behind a check only launches can be switched off, library
/// calls and copies there write nothing that lives across steps.
std::string findDeviceFault(const program::Program *program);

} // namespace scrimp::runtime

#endif
