#include "ops/backend.h"

#include <algorithm>

#include "base/error.h"
#include "ops/reference/reference_ops.h"

namespace trireme {
namespace {

/// A GPU that does not exist.
class PlannedDevice final : public Device {
 public:
  std::string_view name() const override { return "cuda"; }
  std::byte* allocate(size_t) override { refuse(); }
  void free(std::byte*, size_t) noexcept override {}
  void release(std::byte*, size_t) override {}
  DeviceStream& stream() override { refuse(); }
  std::unique_ptr<DeviceStream> make_stream() override { refuse(); }

 private:
  [[noreturn]] static void refuse() { fail(ErrorKind::usage, "a plan of a GPU cannot compute"); }
};

/// Bytes of an arena for so many elements.
size_t taken(DType dtype, int64_t count) { return (static_cast<size_t>(count) * size_of(dtype) + 63) / 64 * 64; }

int64_t over(int64_t count, int64_t each) { return (count + each - 1) / each; }

/// Chunks of rows whose sums column_sums.h keeps.
int64_t column_chunks(int64_t rows, int64_t width) {
  const int64_t wanted = std::clamp<int64_t>(512 / over(width, 256), 1, 128);
  return std::max<int64_t>(1, over(rows, std::max<int64_t>(32, over(rows, wanted))));
}

/// As CudaOps::scratch_bytes(), which cannot be asked here: PlannedGpuOps.* of test_gpu_executor compares both.
size_t gpu_scratch_bytes(const CallSizes& s) {
  const int64_t chunks = column_chunks(s.rows, s.width);
  const size_t embedding = 3 * taken(DType::i32, s.rows) + taken(DType::f32, over(s.rows, 64) * s.width) +
                           taken(DType::i32, 256 * over(s.rows, 2048));
  const size_t norm =
      std::max(taken(DType::f32, 2 * 264 * std::min<int64_t>(s.width, 1024)), taken(DType::f32, 2 * chunks * s.width));
  return std::max({embedding, taken(DType::f32, chunks * s.width), norm, taken(DType::f32, 128 * 1024),
                   taken(DType::f32, s.rows * s.attention.heads())});
}

class PlannedGpuOps final : public ReferenceOps {
 public:
  std::string_view name() const override { return "cuda"; }
  Device& device() const override { return device_; }
  size_t scratch_bytes(const CallSizes& sizes) const override { return gpu_scratch_bytes(sizes); }
  bool has_delta_rule() const override { return false; }
  HeadBlock head_block() const override { return {.rows = 8192, .bytes = int64_t{1} << 30}; }

 private:
  bool takes(DType) const override { return false; }

  mutable PlannedDevice device_;
};

}  // namespace

std::unique_ptr<Ops> make_planned_gpu_ops() { return std::make_unique<PlannedGpuOps>(); }

}  // namespace trireme
