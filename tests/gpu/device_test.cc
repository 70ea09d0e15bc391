// A GPU as a device of tensors where there is one, and what its absence is told as where there is none.

#include <gmock/gmock.h>

#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "cuda/cublaslt.h"
#include "cuda/device.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/vector_view.h"

namespace trireme {
namespace {

TEST(CudaDevice, CopiesInOrderOrIsNamedAsAbsent) {
  std::unique_ptr<CudaDevice> device;
  try {
    device = make_cuda_device();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_THAT(e.what(), testing::MatchesRegex(
                              "GPU 0 cannot be used: 0 GPUs were found; the CUDA runtime [0-9]+.[0-9] says \".+\" "
                              "\\(code (35|100)\\), the driver is (missing|for CUDA .+); .*nvidia-smi shows .+"));
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

/// x w^T of ones, with the products that are timed and kept in the file.
std::vector<float> product(CudaDevice& device, const std::string& choices) {
  constexpr int64_t kSize = 64;
  const auto products = make_cublaslt_products(choices, true);
  DeviceStream& stream = device.stream();
  const std::vector<float> ones(kSize * kSize, 1);
  std::vector<float> back(ones.size());
  const size_t bytes = ones.size() * sizeof(float);
  std::byte* memory = device.allocate(2 * bytes);
  const View x(memory, DType::f32, {kSize, kSize}, &device), y(memory + bytes, DType::f32, {kSize, kSize}, &device);
  const ConstView from = view(ones);
  const View to = view(back);
  stream.copy(from.reshape({kSize, kSize}), x);
  stream.copy(from.reshape({kSize, kSize}), y);
  products->multiply(gpu_stream(stream), x, false, x, true, {}, 1, y);  // adds: timing must not touch y
  stream.copy(y, to.reshape({kSize, kSize}));
  device.free(memory, 2 * bytes);
  return back;
}

TEST(CublasLt, TimesAProductOnceAndTakesTheSameAgain) {
  std::unique_ptr<CudaDevice> device;
  try {
    device = make_cuda_device();
  } catch (const Error&) {
    // Without a GPU the library, where it is found, cannot begin.
    EXPECT_THROW(make_cublaslt_products(), Error);
    return;
  }
  const TemporaryFolder folder;
  const std::string path = folder / "gpu-products.jsonl";
  EXPECT_EQ(product(*device, path), std::vector<float>(4096, 65));
  const std::string kept = read_text(path);
  EXPECT_THAT(kept, testing::StartsWith("{\"gpu\":\"" + device->description().substr(0, 6)));
  EXPECT_EQ(std::count(kept.begin(), kept.end(), '\n'), 1);
  EXPECT_EQ(product(*device, path), std::vector<float>(4096, 65));
  EXPECT_EQ(read_text(path), kept);
}

}  // namespace
}  // namespace trireme
