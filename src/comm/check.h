#pragma once
// Argument checks that every communication backend shares. All throw Error::shape naming the call, its argument and the
// expectation.

#include <string_view>

#include "tensor/view.h"

namespace trireme::comm_check {

/// f32, f64, i32 or i64.
void reducible(std::string_view call, ConstView x);
/// `large` has `parts` times the elements of `small` and the same type.
void parts(std::string_view call, ConstView small, ConstView large, int parts);
/// From 0 to kMostTag, which every MPI accepts.
constexpr int kMostTag = 32767;
void tag(std::string_view call, int tag);
/// A rank of the group.
void rank(std::string_view call, int rank, int size);

}  // namespace trireme::comm_check
