#include "base/names.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

enum class Place { here, there, nowhere };

}  // namespace

template <>
struct Names<Place> {
  static constexpr Named<Place> kAll[] = {{"there", Place::there}, {"here", Place::here}};
};

namespace {

TEST(Names, LeadToValuesAndBack) {
  EXPECT_EQ(name_of(Place::here), "here");
  EXPECT_EQ(name_of(Place::there), "there");
  EXPECT_EQ(name_of(Place::nowhere), "") << "a value without a name";
  EXPECT_EQ(value_named<Place>("there"), Place::there);
  EXPECT_EQ(value_named<Place>("nowhere"), std::nullopt);
  EXPECT_EQ(value_named<Place>("her"), std::nullopt);
  static_assert(HasNames<Place> && !HasNames<int>);
}

}  // namespace
}  // namespace trireme
