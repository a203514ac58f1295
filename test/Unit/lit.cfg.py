"""The GoogleTest programs in the build tree's test/Unit."""
import os

import lit.formats

config.name = "scrimp-unit"
config.suffixes = []
config.test_source_root = config.test_exec_root = os.path.join(config.scrimp_build_dir, "test", "Unit")
config.test_format = lit.formats.GoogleTest(".", "-tests")
