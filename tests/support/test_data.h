#pragma once
// The place of large real test files. They are not part of the project: tests that need them skip with a message if
// they are missing.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/paths.h"

namespace trireme {

/// Folder of real test data: TRIREME_TEST_DATA, else ../shared/data beside the source root.
inline std::filesystem::path test_data_dir() {
  if (const char* dir = std::getenv("TRIREME_TEST_DATA")) return dir;
  return std::filesystem::path(source_dir()) / ".." / "shared" / "data";
}

}  // namespace trireme

/// Skips the test, with the reason, if a file of the real test data is missing.
#define TRIREME_NEEDS_TEST_DATA(relative)                                                                         \
  do {                                                                                                            \
    if (!std::filesystem::exists(trireme::test_data_dir() / (relative)))                                          \
      GTEST_SKIP() << "needs " << (trireme::test_data_dir() / (relative)).string() << " (set TRIREME_TEST_DATA)"; \
  } while (false)
