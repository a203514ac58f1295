// Runs the tests. OpenBLAS is set up as an executable does it.
#include "scrimp/runtime/Library.h"
#include <gtest/gtest.h>

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  scrimp::runtime::initializeLibrary();
  return RUN_ALL_TESTS();
}
