#pragma once
// What kernels are written in. nvcc compiles them for GPUs; g++ compiles the same source for the executor of the tests
// (tests/gpu/gpu_executor.h), which runs them on the host and checks what a GPU does not: bounds, races, elements that
// no thread wrote, collectives that some lanes do not reach, copies that no thread waited for.
//
// The subset: a grid of up to three dims; shared memory through SharedMemory; sync_block, sync_warp; shuffles and votes
// of complete warps; tensor-core products of 16 x 8 x 16; ldmatrix; asynchronous copies of 16 bytes with groups. No
// atomic operations: every sum has one order.

#include <bit>
#include <cstdint>
#include <type_traits>

#include "cuda/stream.h"
#include "tensor/f16.h"

#ifdef __CUDACC__

#include <cuda_runtime.h>

#include "cuda/check.h"

#define TRIREME_DEVICE __device__ __forceinline__
#define TRIREME_HOST_DEVICE __host__ __device__ __forceinline__
#define TRIREME_KERNEL __global__ void
#define TRIREME_UNROLL _Pragma("unroll")

extern __shared__ __align__(16) unsigned char trireme_shared_memory[];

namespace trireme::gpu {

/// Elements in the device's memory; on the executor, every access is checked against `count`.
template <class T>
struct Global {
  T* data = nullptr;
  Global() = default;
  TRIREME_HOST_DEVICE Global(T* first, int64_t) : data(first) {}
  TRIREME_DEVICE T& operator[](int64_t i) const { return data[i]; }
  TRIREME_HOST_DEVICE bool empty() const { return data == nullptr; }
};

/// N elements of a block's shared memory.
template <class T, int N>
struct Shared {
  T* data;
  TRIREME_DEVICE T& operator[](int i) const { return data[i]; }
};

/// Hands out a block's shared memory, in the same order in every thread. launch() gets the sum of bytes<T, N>.
class SharedMemory {
 public:
  template <class T, int N>
  static constexpr int bytes = (N * static_cast<int>(sizeof(T)) + 15) / 16 * 16;
  template <class T, int N>
  TRIREME_DEVICE Shared<T, N> take(const char*) {
    const int at = used_;
    used_ += bytes<T, N>;
    return {reinterpret_cast<T*>(trireme_shared_memory + at)};
  }

 private:
  int used_ = 0;
};

TRIREME_DEVICE int thread() { return static_cast<int>(threadIdx.x); }
TRIREME_DEVICE int threads() { return static_cast<int>(blockDim.x); }
TRIREME_DEVICE int block_x() { return static_cast<int>(blockIdx.x); }
TRIREME_DEVICE int block_y() { return static_cast<int>(blockIdx.y); }
TRIREME_DEVICE int block_z() { return static_cast<int>(blockIdx.z); }
TRIREME_DEVICE int blocks_x() { return static_cast<int>(gridDim.x); }
TRIREME_DEVICE void sync_block() { __syncthreads(); }
TRIREME_DEVICE void sync_warp() { __syncwarp(); }

template <class T>
TRIREME_DEVICE T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
template <class T>
TRIREME_DEVICE T shuffle(T value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}
/// The value of the lane `distance` below; lanes without one get their own value.
template <class T>
TRIREME_DEVICE T shuffle_up(T value, int distance) {
  return __shfl_up_sync(0xffffffffu, value, static_cast<unsigned>(distance));
}
TRIREME_DEVICE uint32_t ballot(bool vote) { return __ballot_sync(0xffffffffu, vote); }

// One rounding per operation, never fused.
TRIREME_DEVICE float add_rn(float a, float b) { return __fadd_rn(a, b); }
TRIREME_DEVICE float sub_rn(float a, float b) { return __fsub_rn(a, b); }
TRIREME_DEVICE float mul_rn(float a, float b) { return __fmul_rn(a, b); }
TRIREME_DEVICE float div_rn(float a, float b) { return __fdiv_rn(a, b); }
TRIREME_DEVICE float sqrt_rn(float a) { return __fsqrt_rn(a); }
TRIREME_DEVICE double add_rn(double a, double b) { return __dadd_rn(a, b); }
TRIREME_DEVICE double mul_rn(double a, double b) { return __dmul_rn(a, b); }

/// 2^x to about 2 units in the last place; subnormal results are 0.
TRIREME_DEVICE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// 1 / x to 1 unit in the last place.
TRIREME_DEVICE float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
TRIREME_DEVICE int bit_count(uint32_t x) { return __popc(x); }

TRIREME_DEVICE uint32_t round_pair(float low, float high, bf16_t) {
  uint32_t y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
TRIREME_DEVICE uint32_t round_pair(float low, float high, f16_t) {
  uint32_t y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
TRIREME_DEVICE float widen(f16_t x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}

/// d += a b of one warp; fragments as PTX defines them for mma.m16n8k16.
TRIREME_DEVICE void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bf16_t) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
TRIREME_DEVICE void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, f16_t) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Four 8 x 8 matrices of 16-bit elements; lane 8 m + i gives the first element of row i of matrix m.
template <class T, int N>
TRIREME_DEVICE void ldmatrix_x4(uint32_t (&r)[4], Shared<T, N> from, int row) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(from.data + row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}
template <class T, int N>
TRIREME_DEVICE void ldmatrix_x4_transposed(uint32_t (&r)[4], Shared<T, N> from, int row) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(from.data + row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}

/// Copies 16 bytes, or writes zeros where not `valid`; the values are there after copy_async_wait() and a barrier.
template <class T, int N>
TRIREME_DEVICE void copy_async16(Shared<T, N> to, int at, Global<const T> from, int64_t first, bool valid) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to.data + at));
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"(address), "l"(from.data + first), "r"(bytes)
               : "memory");
}
/// Ends a group of copies.
TRIREME_DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Returns once all but the last kPending groups of this thread's copies have arrived.
template <int kPending>
TRIREME_DEVICE void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Whether a block has less than 100 KiB of shared memory: compute capability 8.6, 8.9 and 12.
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200)
constexpr bool kSmallSharedMemory = true;
#else
constexpr bool kSmallSharedMemory = false;
#endif
/// The same of the calling thread's GPU.
inline bool small_shared_memory() { return shared_memory_limit() < 100 << 10; }

/// 16 bytes.
struct alignas(16) Bits128 {
  uint32_t words[4];
};
template <class T>
TRIREME_DEVICE Bits128 load128(Global<T> from, int64_t first) {
  const uint4 v = *reinterpret_cast<const uint4*>(from.data + first);
  return {v.x, v.y, v.z, v.w};
}
template <class T>
TRIREME_DEVICE void store128(Bits128 x, Global<T> to, int64_t first) {
  *reinterpret_cast<uint4*>(to.data + first) = make_uint4(x.words[0], x.words[1], x.words[2], x.words[3]);
}
/// Two 16-bit elements, the first in the lower half.
template <class T>
TRIREME_DEVICE void store_pair(uint32_t x, Global<T> to, int64_t first) {
  *reinterpret_cast<uint32_t*>(to.data + first) = x;
}

struct Grid {
  int64_t x = 1, y = 1, z = 1;
};

/// Runs kernel(arguments) on grid x threads; nothing where the grid is empty.
template <class Arguments>
void launch(const char* name, Stream stream, Grid grid, int threads, int shared_bytes, void (*kernel)(Arguments),
            const Arguments& arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  if (shared_bytes > 48 << 10) allow_shared_memory(reinterpret_cast<const void*>(kernel), shared_bytes);
  kernel<<<dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z)),
           static_cast<unsigned>(threads), static_cast<size_t>(shared_bytes), stream>>>(arguments);
  check_launch(name);
}

}  // namespace trireme::gpu

#else
#include "gpu_executor.h"
#endif

// What follows is made of the above alone.

namespace trireme::gpu {

TRIREME_DEVICE float widen(float x) { return x; }
TRIREME_DEVICE float widen(bf16_t x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

/// Round to nearest, ties to even; a NaN stays one.
template <class T>
TRIREME_DEVICE T narrow(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else {
    return {static_cast<uint16_t>(round_pair(x, 0, T{}))};
  }
}

/// to_bf16() of tensor/dtype.h and to_f16() of tensor/f16.h: NaN keeps its upper bits.
template <class T>
TRIREME_DEVICE T narrow_exactly(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const bool nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  if constexpr (std::is_same_v<T, bf16_t>) {
    if (nan) return {static_cast<uint16_t>(bits >> 16 | 0x40)};
    return {static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
  } else {
    if (nan) return {static_cast<uint16_t>((bits >> 16 & 0x8000) | 0x7E00 | (bits >> 13 & 0x1FF))};
    return narrow<f16_t>(x);
  }
}

/// Eight neighbouring elements: 16 bytes of bf16 or f16, 32 of f32.
constexpr int kPack = 8;
struct Pack {
  float v[kPack];
};

/// Eight elements as they are in memory: fewer registers than a Pack while they are waited for.
template <class T>
struct Raw {
  static constexpr int kParts = static_cast<int>(sizeof(T)) / 2;
  Bits128 bits[kParts];
};

/// Elements [first, first + 8) of x; those from `end` on are `beyond`. fast: the address is a multiple of 16 bytes.
template <class T>
TRIREME_DEVICE Raw<std::remove_const_t<T>> load_raw(Global<T> x, int64_t first, int64_t end, bool fast,
                                                    float beyond = 0) {
  using Element = std::remove_const_t<T>;
  Raw<Element> raw;
  if (fast && first + kPack <= end) {
    TRIREME_UNROLL
    for (int part = 0; part < Raw<Element>::kParts; ++part)
      raw.bits[part] = load128(x, first + part * (16 / static_cast<int>(sizeof(T))));
    return raw;
  }
  TRIREME_UNROLL
  for (int i = 0; i < kPack; ++i) {
    if constexpr (std::is_same_v<Element, float>) {
      raw.bits[i / 4].words[i % 4] = std::bit_cast<uint32_t>(first + i < end ? x[first + i] : beyond);
    } else {
      const uint32_t element = (first + i < end ? x[first + i] : narrow<Element>(beyond)).bits;
      raw.bits[0].words[i / 2] = i % 2 == 0 ? element : raw.bits[0].words[i / 2] | element << 16;
    }
  }
  return raw;
}

TRIREME_DEVICE Pack unpack(const Raw<float>& raw) {
  Pack p;
  TRIREME_UNROLL
  for (int i = 0; i < kPack; ++i) p.v[i] = std::bit_cast<float>(raw.bits[i / 4].words[i % 4]);
  return p;
}
TRIREME_DEVICE Pack unpack(const Raw<bf16_t>& raw) {
  Pack p;
  TRIREME_UNROLL
  for (int i = 0; i < 4; ++i) {
    p.v[2 * i] = std::bit_cast<float>(raw.bits[0].words[i] << 16);
    p.v[2 * i + 1] = std::bit_cast<float>(raw.bits[0].words[i] & 0xFFFF0000u);
  }
  return p;
}
TRIREME_DEVICE Pack unpack(const Raw<f16_t>& raw) {
  Pack p;
  TRIREME_UNROLL
  for (int i = 0; i < kPack; ++i)
    p.v[i] = widen(f16_t{static_cast<uint16_t>(raw.bits[0].words[i / 2] >> (16 * (i % 2)))});
  return p;
}

template <class T>
TRIREME_DEVICE Pack load_pack(Global<T> x, int64_t first, int64_t end, bool fast, float beyond = 0) {
  return unpack(load_raw(x, first, end, fast, beyond));
}

/// Eight elements rounded to T.
template <class T>
TRIREME_DEVICE Raw<T> to_raw(const Pack& p) {
  Raw<T> raw;
  TRIREME_UNROLL
  for (int i = 0; i < 4 * Raw<T>::kParts; ++i) {
    if constexpr (std::is_same_v<T, float>) {
      raw.bits[i / 4].words[i % 4] = std::bit_cast<uint32_t>(p.v[i]);
    } else {
      raw.bits[0].words[i] = round_pair(p.v[2 * i], p.v[2 * i + 1], T{});
    }
  }
  return raw;
}

template <class T>
TRIREME_DEVICE void store_raw(const Raw<T>& raw, Global<T> y, int64_t first, int64_t end, bool fast) {
  if (fast && first + kPack <= end) {
    TRIREME_UNROLL
    for (int part = 0; part < Raw<T>::kParts; ++part)
      store128(raw.bits[part], y, first + part * (16 / static_cast<int>(sizeof(T))));
    return;
  }
  TRIREME_UNROLL
  for (int i = 0; i < kPack; ++i) {
    if (first + i >= end) continue;
    if constexpr (std::is_same_v<T, float>) {
      y[first + i] = std::bit_cast<float>(raw.bits[i / 4].words[i % 4]);
    } else {
      y[first + i] = {static_cast<uint16_t>(raw.bits[0].words[i / 2] >> (16 * (i % 2)))};
    }
  }
}

template <class T>
TRIREME_DEVICE void store_pack(const Pack& p, Global<T> y, int64_t first, int64_t end, bool fast) {
  store_raw(to_raw<T>(p), y, first, end, fast);
}

constexpr int kWarp = 32;

template <class T>
TRIREME_DEVICE T warp_sum(T x) {
  TRIREME_UNROLL
  for (int mask = kWarp / 2; mask > 0; mask /= 2) x += shuffle_xor(x, mask);
  return x;
}
TRIREME_DEVICE float warp_max(float x) {
  TRIREME_UNROLL
  for (int mask = kWarp / 2; mask > 0; mask /= 2) {
    const float other = shuffle_xor(x, mask);
    x = other > x ? other : x;
  }
  return x;
}

}  // namespace trireme::gpu
