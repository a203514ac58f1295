// Which of OpenBLAS's kernels run on this processor.
#ifndef SCRIMP_RUNTIME_BLASKERNELS_H
#define SCRIMP_RUNTIME_BLASKERNELS_H

namespace scrimp::runtime {

/// OpenBLAS takes a processor that is newer than itself for the oldest it knows (0.3.21: an Emerald Rapids for a
/// Prescott, at a third of the speed). It chooses before main() and listens to the environment alone: where it has
/// chosen kernels without AVX2 on a processor that has it, this names the right ones in OPENBLAS_CORETYPE and starts the
/// program again. An OPENBLAS_CORETYPE that is set is left alone. Call first thing in main().
void useFastBlasKernels(char **argv);

} // namespace scrimp::runtime

#endif
