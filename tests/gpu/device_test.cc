// A GPU as a device of tensors where there is one, and what its absence is told as where there is none.

#include <gmock/gmock.h>

#include <vector>

#include "base/error.h"
#include "cuda/device.h"
#include "tests/support/vector_view.h"

namespace trireme {
namespace {

TEST(CudaDevice, CopiesInOrderOrIsNamedAsAbsent) {
  std::unique_ptr<CudaDevice> device;
  try {
    device = make_cuda_device();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_THAT(e.what(), testing::StartsWith("GPU 0 cannot be used: 0 GPUs were found, the CUDA runtime says \""));
    EXPECT_THAT(e.what(), testing::EndsWith("\"; nvidia-smi shows what the driver sees"));
    return;
  }
  const std::unique_ptr<DeviceStream> stream = device->make_stream();
  std::byte* memory = device->allocate(1024);
  const View x(memory, DType::i32, {256}, device.get());
  std::vector<int32_t> values(256, 7), back(256, 1);
  const View host = view(back);
  stream->copy(x, host);
  EXPECT_EQ(back, std::vector<int32_t>(256)) << "memory is zeroed";
  stream->copy(view(values), x);
  std::fill(values.begin(), values.end(), 9);  // the source may change after the return
  const Event event = stream->record();
  stream->copy(x, host);
  EXPECT_TRUE(event.reached());
  EXPECT_EQ(back, std::vector<int32_t>(256, 7));
  device->free(memory, 1024);
  try {
    device->allocate(size_t{1} << 50);
    FAIL() << "no GPU has a PiB";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::MatchesRegex("GPU 0 has [0-9]+ of [0-9]+ MiB free, 1073741824 MiB are needed"));
  }
}

}  // namespace
}  // namespace trireme
