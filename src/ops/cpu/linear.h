#pragma once
#include <cstddef>
#include <cstdint>

namespace trireme {

/// Scratch of any linear operator; arguments as in Ops::scratch_bytes().
size_t linear_scratch_bytes(int64_t rows, int64_t width, int64_t weight_count, int threads);

}  // namespace trireme
