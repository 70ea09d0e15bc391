#include "comm/proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/parallel.h"

namespace trireme {
namespace {

using testing::HasSubstr;

class Proof : public testing::Test {
 protected:
  int rank() { return test_process().rank(); }
  int size() { return test_process().size(); }
  std::string host() { return "node" + std::to_string(rank()); }

  /// Message of the Error::mismatch that `prove` throws, which has to be the same on all ranks.
  std::string mismatch(const std::function<void(Scalars&)>& prove) {
    std::string message = "no error";
    try {
      prove(scalars_);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::mismatch);
      message = e.what();
    }
    for (const std::string& other : scalars_.gather(message)) EXPECT_EQ(other, message);
    return message;
  }

  Scalars scalars_{test_process().world()};
};

TEST_F(Proof, EqualRanksPass) {
  prove_one_job(scalars_, host(), "steps: 10\n", "trireme 1");
  prove_same_parameters(scalars_, host(), 42, 1);
}

TEST_F(Proof, AnotherConfigurationOnOneRankIsNamedWithItsLine) {
  if (size() < 3) GTEST_SKIP() << "needs a majority";
  const std::string config = fmt::format("batch:\n  global: {}\n", rank() == 1 ? 16 : 32);
  EXPECT_EQ(
      mismatch([&](Scalars& s) { prove_one_job(s, host(), config, "trireme 1"); }),
      fmt::format("ranks do not run the same configuration: rank 1 on node1 differs from the other {}; rank 0 has "
                  "\"  global: 32\", rank 1 has \"  global: 16\"; give every rank the same files and flags",
                  size() - 1));
}

TEST_F(Proof, WithoutAMajorityEveryRankIsNamed) {
  if (size() != 2) GTEST_SKIP() << "needs two ranks";
  EXPECT_EQ(mismatch([&](Scalars& s) { prove_one_job(s, host(), "", "trireme " + std::to_string(rank())); }),
            "ranks do not run the same program: no majority agrees among rank 0 on node0, rank 1 on node1; rank 0 has "
            "\"trireme 0\", rank 1 has \"trireme 1\"; install the same trireme binary on every host");
}

TEST_F(Proof, AMissingLineIsShownAsEmpty) {
  if (size() < 3) GTEST_SKIP() << "needs a majority";
  const std::string config = rank() == 2 ? "a: 1\n" : "a: 1\nb: 2\n";
  EXPECT_THAT(mismatch([&](Scalars& s) { prove_one_job(s, host(), config, ""); }),
              HasSubstr("rank 0 has \"b: 2\", rank 2 has \"\""));
}

TEST_F(Proof, ADriftedRankIsNamed) {
  if (size() < 3) GTEST_SKIP() << "needs a majority";
  EXPECT_EQ(
      mismatch([&](Scalars& s) { prove_same_parameters(s, host(), rank() == size() - 1 ? 1 : 2, 100); }),
      fmt::format("ranks hold different parameters after step 100: rank {0} on node{0} differs from the other {0}; "
                  "resume from the last checkpoint and check that host's memory",
                  size() - 1));
}

}  // namespace
}  // namespace trireme
