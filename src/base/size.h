#pragma once
// Sizes that files and flags give: looked at before anything is allocated for them or counted up to them.

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace trireme {

/// `value` as int64_t when it lies from `least` to `most`. Throws Error::data: `what` ("FILE: \"vocabulary_size\""),
/// the value and the range.
int64_t checked_size(int64_t value, int64_t least, int64_t most, std::string_view what);

/// The same of an unsigned value, which may be more than int64_t holds.
int64_t checked_size(uint64_t value, uint64_t least, int64_t most, std::string_view what);

/// The product of sizes that are not negative. Throws Error::config when it overflows: `what` with the factors.
int64_t checked_product(std::initializer_list<int64_t> factors, std::string_view what);

/// Bytes that this process can have at most: the host's memory and swap, or the tighter limit of its control group or
/// of `ulimit -v`.
uint64_t memory_limit();

/// Throws Error::config when `bytes` are more than memory_limit(): `what` ("tensors of the model"), both numbers and
/// `remedy`.
void require_fits_memory(uint64_t bytes, std::string_view what, std::string_view remedy);

}  // namespace trireme
