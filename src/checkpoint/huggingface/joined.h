#pragma once
// Lists of names that several families share, as one.

#include <algorithm>
#include <array>

#include "checkpoint/huggingface/family.h"

namespace trireme {

template <size_t N, size_t M>
constexpr std::array<NameRule, N + M> joined(const std::array<NameRule, N>& a, const std::array<NameRule, M>& b) {
  std::array<NameRule, N + M> all{};
  std::ranges::copy(b, std::ranges::copy(a, all.begin()).out);
  return all;
}

}  // namespace trireme
