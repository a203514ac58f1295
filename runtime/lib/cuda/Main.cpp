// main() of a program for CUDA devices.
#include "scrimp/runtime/Runtime.h"

int main(int argc, char **argv) {
  scrimp::runtime::ProgramImage image{scrimp_program, scrimp_program_size, scrimp_kernels, scrimp_kernel_count};
  return scrimp::runtime::runMain(argc, argv, image);
}
