#include "base/meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace trireme {
namespace {

TEST(Meter, ShowsProgressSpeedAndRemainingTime) {
  Meter meter("gpt2", 4'000'000);
  meter.set_file("model.safetensors");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  meter.add(1'000'000);
  EXPECT_THAT(
      meter.line(),
      testing::ContainsRegex("^gpt2 model.safetensors: 1.0 MB of 4.0 MB \\(25 %\\), [0-9.]+ [kM]B/s, [0-9]+ s left$"));
  EXPECT_THAT(meter.summary(), testing::ContainsRegex("^1.0 MB in 0 s: [0-9.]+ [kM]B/s$"));
  meter.take_back(1'000'000);
  EXPECT_THAT(meter.line(), testing::HasSubstr("1.0 MB of 5.0 MB (20 %)"));
}

}  // namespace
}  // namespace trireme
