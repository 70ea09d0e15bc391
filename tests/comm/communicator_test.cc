#include "comm/communicator.h"

#include "tests/support/communicator_suite.h"

namespace trireme {

INSTANTIATE_TEST_SUITE_P(Single, CommunicatorSuite, testing::Values(CommunicatorCase{"Single", make_single}),
                         case_name);

TEST(Handle, WithoutAnOperationIsDone) {
  Handle handle;
  EXPECT_TRUE(handle.test());
  handle.wait("nothing");
}

}  // namespace trireme
