#include "base/size.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace trireme {
namespace {

TEST(Size, OutOfRangeIsNamedWithItsNumbers) {
  EXPECT_EQ(checked_size(int64_t{7}, 0, 7, "x"), 7);
  EXPECT_ERROR(checked_size(int64_t{-1}, 0, 7, "f.json: \"layers\""), ErrorKind::data,
               "f.json: \"layers\" is -1, expected 0 to 7");
  EXPECT_ERROR(checked_size(uint64_t{1} << 63, uint64_t{0}, INT64_MAX, "x"), ErrorKind::data,
               "x is 9223372036854775808, expected 0 to 9223372036854775807");
}

TEST(Size, ProductsThatOverflowAreNamedWithTheirFactors) {
  EXPECT_EQ(checked_product({3, 0, 5}, "x"), 0);
  EXPECT_EQ(checked_product({1 << 30, 1 << 30}, "x"), int64_t{1} << 60);
  EXPECT_ERROR(checked_product({int64_t{1} << 40, 1 << 30}, "run.steps x batch.global"), ErrorKind::config,
               "run.steps x batch.global: 1099511627776 x 1073741824 overflows 64 bits");
}

TEST(Size, MoreThanTheMemoryIsNamedWithBothNumbers) {
  EXPECT_GT(memory_limit(), uint64_t{1} << 20);
  EXPECT_NO_THROW(require_fits_memory(1, "x", "y"));
  EXPECT_ERROR(require_fits_memory(uint64_t{1} << 62, "the order of samples", "lower run.steps"), ErrorKind::config,
               "the order of samples would need 4611686018.43 GB of memory, but this process can have ");
}

}  // namespace
}  // namespace trireme
