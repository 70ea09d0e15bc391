// The library that is opened when a GPU is asked for.

#include "ops/gpu_library.h"

#include <gtest/gtest.h>

#include "base/host.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

std::string beside_this(const std::string& name) {
  return program_path().substr(0, program_path().rfind('/') + 1) + name;
}

TEST(GpuLibrary, GivesItsBackend) {
  const Backend backend = open_gpu_backend(beside_this("libfake_gpu.so"));
  EXPECT_EQ(backend.hardware, "a GPU");
  Context context;
  std::vector<float> x{1, 2}, y{3, 4};
  backend.ops->add(context, View(std::span(x), {2}), View(std::span(y), {2}));
  EXPECT_EQ(y, (std::vector<float>{4, 6}));
}

TEST(GpuLibrary, OfAnotherBuildIsRefused) {
  EXPECT_ERROR(open_gpu_backend(beside_this("libother_gpu.so")), ErrorKind::usage,
               "libother_gpu.so is of another build than this program; build both together: scripts/build "
               "release-cuda");
}

TEST(GpuLibrary, ThatIsMissingOrSomethingElseIsNamed) {
  EXPECT_ERROR(open_gpu_backend("/nonexistent/libtrireme_cuda.so"), ErrorKind::usage,
               "the GPU library cannot be opened: /nonexistent/libtrireme_cuda.so: cannot open");
  EXPECT_ERROR(open_gpu_backend("libm.so.6"), ErrorKind::usage,
               "libm.so.6 has no trireme_gpu_interface: it is not the GPU library of this program");
}

TEST(GpuLibrary, SamplingUsesThatOfOneRank) {
  EXPECT_ERROR(make_backend_of_one(DeviceChoice::cuda, 2, "--device"), ErrorKind::config,
               "--device is cuda, but the job has 2 ranks: only training and bench use the GPUs of several ranks");
  EXPECT_EQ(make_backend_of_one(DeviceChoice::automatic, 2, "--device").device, nullptr);
}

TEST(GpuLibrary, IsLookedForBesideTheProgram) {
  EXPECT_EQ(gpu_library_path(), "") << "nothing builds it into the folder of this test";
  EXPECT_ERROR(make_backend(DeviceChoice::cuda), ErrorKind::usage,
               "run.device is cuda, but this build has no libtrireme_cuda.so beside the program");
  EXPECT_EQ(make_backend(DeviceChoice::automatic).device, nullptr);
  EXPECT_EQ(make_backend(DeviceChoice::cpu).device, nullptr);
}

}  // namespace
}  // namespace trireme
