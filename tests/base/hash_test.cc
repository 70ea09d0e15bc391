#include "base/hash.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

uint64_t hash_of(std::string_view text) { return xxh3(std::as_bytes(std::span(text.data(), text.size()))); }

TEST(Hash, IsXxh3With64Bits) {
  // Known answers of the reference implementation, seed 0.
  EXPECT_EQ(hash_of(""), 0x2D06800538D394C2u);
  EXPECT_EQ(hash_of("a"), 0xE6C632B61E964E1Fu);
  EXPECT_EQ(hash_of("abc"), 0x78AF5F94892F3950u);
}

TEST(Hash, EveryByteCounts) {
  std::string text(1000, 'x');
  const uint64_t before = hash_of(text);
  for (char& c : text) {
    c ^= 1;
    EXPECT_NE(hash_of(text), before);
    c ^= 1;
  }
  EXPECT_EQ(hash_of(text), before);
}

TEST(Hash, PrintsSixteenDigits) {
  EXPECT_EQ(hex64(0), "0000000000000000");
  EXPECT_EQ(hex64(0xABCDEF), "0000000000abcdef");
  EXPECT_EQ(hex64(UINT64_MAX), "ffffffffffffffff");
}

}  // namespace
}  // namespace trireme
