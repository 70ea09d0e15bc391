#pragma once
#include <cstdio>
#include <exception>

namespace trireme {

/// The exit code of a program that checks a library of NVIDIA's as far as that goes without a GPU: that of `check`, or
/// 2, which ctest takes for skipped, where it throws because the library is missing.
inline int check_without_gpu(int (*check)()) {
  try {
    return check();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}

}  // namespace trireme
