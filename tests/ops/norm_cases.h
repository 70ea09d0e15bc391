#pragma once
// What layer_norm and rms_norm have in common. Norm: their tensors x, y, dx, dw [rows, width] or [width], forward() and
// backward().

#include <cmath>
#include <limits>

#include "tests/ops/op_test.h"

namespace trireme::test {

/// A NaN in one row makes the results of that row NaN and no others.
template <class Norm>
void expect_nan_stays_in_its_row(DType dtype, Device& device) {
  constexpr int64_t kWidth = 99;
  for (const int64_t place : {0, 1, 17, 97}) {
    Norm n(dtype, 3, kWidth);
    n.x.set(static_cast<size_t>(kWidth + place), std::numeric_limits<double>::quiet_NaN());
    n.forward(device);
    n.backward(device, Write::overwrite);
    for (size_t i = 0; i < n.y.size(); ++i) {
      const bool of_row = i / kWidth == 1;
      EXPECT_EQ(std::isnan(n.y.at(i)), of_row) << "y " << i << ", NaN at " << place;
      EXPECT_EQ(std::isnan(n.dx.at(i)), of_row) << "dx " << i << ", NaN at " << place;
    }
  }
}

/// Two runs give the same bits, and Write::add adds what Write::overwrite writes, in one addition.
template <class Norm>
void expect_same_bits_and_one_addition(Norm first, Device& device) {
  first.forward(device);
  Norm second = first, alone = first;
  const Tensor before = first.dw;
  first.backward(device, Write::add);
  second.backward(device, Write::add);
  alone.backward(device, Write::overwrite);
  EXPECT_TRUE(first.dw == second.dw && first.dx == second.dx);
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(static_cast<float>(first.dw.at(i)),
              static_cast<float>(before.at(i)) + static_cast<float>(alone.dw.at(i)));
}

/// The loss <y, dy> of the reference as a function of one of its inputs.
template <class Norm>
auto loss_of(const Norm& norm, Tensor Norm::*input, Device& device) {
  return [&norm, input, &device](const Tensor& value) {
    Norm moved = norm;
    moved.*input = value;
    moved.forward(device);
    return dot(moved.y, norm.dy);
  };
}

}  // namespace trireme::test
