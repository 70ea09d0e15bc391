#include "cluster/launch/node_session.h"

#include <gmock/gmock.h>

namespace trireme::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

Problem cut(std::string from, std::string to) { return {std::move(from), "cannot reach", "", std::move(to)}; }
bool is_h1(const std::string& host) { return host == "h1"; }

TEST(HostsToDrop, OfTwoHostsThatCannotReachEachOtherTheLaterOneGoes) {
  EXPECT_THAT(hosts_to_drop({}, is_h1), IsEmpty());
  EXPECT_THAT(hosts_to_drop({cut("h2", "h3"), cut("h3", "h2")}, is_h1), ElementsAre("h3"));
  EXPECT_THAT(hosts_to_drop({cut("h2", "h3")}, is_h1), ElementsAre("h3")) << "one direction only";
  EXPECT_THAT(hosts_to_drop({cut("h3", "h2")}, is_h1), ElementsAre("h2"));
}

TEST(HostsToDrop, ThisHostStaysIfAnotherOneCanGo) {
  EXPECT_THAT(hosts_to_drop({cut("h1", "h3"), cut("h3", "h1")}, is_h1), ElementsAre("h3"));
  EXPECT_THAT(hosts_to_drop({cut("h2", "h1")}, is_h1), ElementsAre("h2"));
}

TEST(HostsToDrop, AHostWithoutAnyOfItsConnectionsGoesAlone) {
  EXPECT_THAT(hosts_to_drop({cut("h1", "h2"), cut("h2", "h1"), cut("h2", "h3"), cut("h3", "h2")}, is_h1),
              ElementsAre("h2"));
  EXPECT_THAT(hosts_to_drop({cut("h2", "h3"), cut("h4", "h5")}, is_h1), UnorderedElementsAre("h3", "h5"));
}

TEST(HostsToDrop, AHostWithAProblemOfItsOwnTakesItsConnectionsWithIt) {
  EXPECT_THAT(hosts_to_drop({{"h2", "no disk space", ""}, cut("h2", "h3"), cut("h3", "h2")}, is_h1), ElementsAre("h2"));
}

}  // namespace
}  // namespace trireme::launch
