/* The one C interface between compiled code and the runtime: what an executable defines and the runtime reads.
 *
 * An executable is the object that scrimp-compile emits, linked with libscrimp_runtime.a, whose main() reads the
 * symbols below. Nothing here allocates; all pointers stay valid for the life of the process. */
#ifndef SCRIMP_RUNTIME_ABI_H
#define SCRIMP_RUNTIME_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Computes units [begin, end) of a kernel. `buffers` are host pointers in the order of Launch.buffers (on an emulated
 * device with the two that follow them there). Ranges that are disjoint may run at the same time on several threads. */
typedef void (*scrimp_kernel)(char *const *buffers, int64_t begin, int64_t end);

/* The program (program.fbs), its size, and its kernels in the order of Program.kernels. */
extern const unsigned char scrimp_program[];
extern const uint64_t scrimp_program_size;
extern const scrimp_kernel scrimp_kernels[];
extern const uint64_t scrimp_kernel_count;

#ifdef __cplusplus
}
#endif

#endif
