#pragma once
// Checks sizes from files and flags before anything is allocated or counted.

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace trireme {

/// `value` as int64_t if it is from `least` to `most`. Throws Error::data: `what` ("FILE: \"vocabulary_size\""), the
/// value and the range.
int64_t checked_size(int64_t value, int64_t least, int64_t most, std::string_view what);

/// The same for an unsigned value, which may exceed int64_t.
int64_t checked_size(uint64_t value, uint64_t least, int64_t most, std::string_view what);

/// The product of sizes that are not negative. Throws Error::config if it overflows: `what` with the factors.
int64_t checked_product(std::initializer_list<int64_t> factors, std::string_view what);

/// The most bytes that this process can have: the host's memory and swap, or a tighter limit of its control group or of
/// `ulimit -v`.
uint64_t memory_limit();

/// Throws Error::config if `bytes` exceed memory_limit(): `what` ("tensors of the model"), both numbers and `remedy`.
void require_fits_memory(uint64_t bytes, std::string_view what, std::string_view remedy);

}  // namespace trireme
