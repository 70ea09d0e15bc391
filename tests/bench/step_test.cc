#include "bench/step.h"

#include <gmock/gmock.h>

#include <limits>

namespace trireme::test {
namespace {

using testing::HasSubstr;

PeerStep with_losses(double theirs, double ours) {
  PeerStep peer;
  peer.loss = theirs;
  peer.our_loss = ours;
  return peer;
}

TEST(PeerStep, SaysThatTheLossesAgree) {
  EXPECT_EQ(with_losses(10.5112, 10.5111).loss_text(),
            "loss 10.5112 after the last step, ours 10.5111: the same weights, tokens and rates");
}

TEST(PeerStep, SaysThatOneOfTheTwoComputesWrongly) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [theirs, ours] : {std::pair{9.53, 10.83}, {kNan, 10.6}, {10.6, kNan}})
    EXPECT_THAT(with_losses(theirs, ours).loss_text(), HasSubstr("one of the two is wrong"));
}

}  // namespace
}  // namespace trireme::test
