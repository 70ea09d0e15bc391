#pragma once
// The host twin of src/cuda/kernel.h: threads of a block are fibers of one host thread, blocks run one after the other.
// Warps run in an order that a seed chooses, each until all its lanes wait or have ended. A mistake ends the launch
// with a Fault that names it; what is looked for:
//   - an access outside of a tensor or of a shared array; a misaligned access of 16 bytes
//   - a shared element that is read and written, or written twice, by different threads without a barrier between
//   - a shared element that is read before any thread of the block has written it
//   - a shared element that an asynchronous copy writes, accessed before the copy was awaited
//   - a barrier or a collective that some threads do not reach, or reach at another line

#include <cmath>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/stream.h"
#include "tensor/f16.h"

#define TRIREME_DEVICE inline
#define TRIREME_HOST_DEVICE inline
#define TRIREME_KERNEL inline void
#define TRIREME_UNROLL

namespace trireme::gpu {

struct Grid {
  int64_t x = 1, y = 1, z = 1;
};

namespace host {

class Fault : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

using Site = std::source_location;

/// What is known of one shared element.
struct Element {
  int16_t writer = -1, reader = -1, other_reader = -1;  ///< thread; -1: nobody since the block began
  bool pending = false;                                 ///< an asynchronous copy will write it
  uint32_t write_epoch = 0, read_epoch = 0;             ///< barriers of the block before it
  uint32_t write_warp_epoch = 0, read_warp_epoch = 0;   ///< and of the thread's warp
};

struct SharedArray {
  std::string name;
  std::vector<unsigned char> bytes;
  std::vector<Element> elements;
};

struct Copy {
  void* to;
  const void* from;  ///< null: zeros
  SharedArray* array;
  int first, count;
};

struct Position {
  int thread = 0, threads = 0;
  int64_t block[3] = {}, blocks[3] = {};
};

/// Of the running thread.
const Position& position();

[[noreturn]] void fault(const std::string& what);

/// Of the running block: the n-th array that the running thread asks for.
SharedArray& shared_array(size_t n, const char* name, size_t size, size_t element);
void check_shared_read(SharedArray& array, int first, int count);
void check_shared_write(SharedArray& array, int first, int count);
void begin_copy(const Copy& copy);
void commit_copies();
void wait_copies(int pending);

void sync_block(Site site);
/// Waits until all lanes of the warp are at `site`; the last one calls all(arguments of the lanes).
void collective(const char* name, Site site, void* arguments, const std::function<void(void* const*)>& all);

void run(const char* name, Grid grid, int threads, int shared_bytes, const std::function<void()>& kernel);

/// Order of the warps from now on, for this host thread.
void set_seed(uint64_t seed);

template <class A, class F>
void with_lanes(const char* name, Site site, A& mine, F&& f) {
  collective(name, site, &mine, [&](void* const* of) { f(reinterpret_cast<A* const*>(of)); });
}

/// Memory whose accesses are counted.
struct Watched {
  const std::byte *first, *end;
  int64_t bytes;  ///< read and written
};
/// From now on, for this host thread; nullptr: none.
inline constinit thread_local std::vector<Watched>* watched = nullptr;
inline void watch(std::vector<Watched>* memory) { watched = memory; }
inline void count_access(const void* address, size_t bytes) {
  if (watched == nullptr) return;
  for (Watched& w : *watched)
    if (address >= w.first && address < w.end) w.bytes += static_cast<int64_t>(bytes);
}

template <class T>
[[noreturn]] void outside(const char* what, int64_t i, int64_t count) {
  fault(std::string(what) + ": element " + std::to_string(i) + " of " + std::to_string(count));
}

}  // namespace host

template <class T>
struct Global {
  T* data = nullptr;
  int64_t count = 0;
  Global() = default;
  Global(T* first, int64_t n) : data(first), count(n) {}
  T& operator[](int64_t i) const {
    if (i < 0 || i >= count) host::outside<T>("a tensor is accessed outside its memory", i, count);
    host::count_access(data + i, sizeof(T));
    return data[i];
  }
  bool empty() const { return data == nullptr; }
  T* checked(int64_t first, int64_t n, size_t alignment) const {
    if (first < 0 || first + n > count) host::outside<T>("a tensor is accessed outside its memory", first, count);
    if (reinterpret_cast<uintptr_t>(data + first) % alignment != 0)
      host::fault("a tensor is accessed at an address that is not a multiple of " + std::to_string(alignment));
    host::count_access(data + first, static_cast<size_t>(n) * sizeof(T));
    return data + first;
  }
};

template <class T, int N>
struct Shared {
  host::SharedArray* array;
  class Reference {
   public:
    Reference(host::SharedArray* of, int i) : array_(of), i_(i) {}
    operator T() const {
      host::check_shared_read(*array_, i_, 1);
      return get();
    }
    Reference& operator=(T value) {
      host::check_shared_write(*array_, i_, 1);
      std::memcpy(array_->bytes.data() + static_cast<size_t>(i_) * sizeof(T), &value, sizeof(T));
      return *this;
    }
    Reference& operator=(const Reference& other) { return *this = static_cast<T>(other); }
    Reference& operator+=(T value) { return *this = static_cast<T>(*this) + value; }

   private:
    T get() const {
      T value;
      std::memcpy(&value, array_->bytes.data() + static_cast<size_t>(i_) * sizeof(T), sizeof(T));
      return value;
    }
    host::SharedArray* array_;
    int i_;
  };
  Reference operator[](int i) const {
    check(i, 1);
    return {array, i};
  }
  void check(int first, int n) const {
    if (first < 0 || first + n > N) host::outside<T>(("shared array " + array->name).c_str(), first, N);
  }
  T* at(int first) const { return reinterpret_cast<T*>(array->bytes.data()) + first; }
};

class SharedMemory {
 public:
  template <class T, int N>
  static constexpr int bytes = (N * static_cast<int>(sizeof(T)) + 15) / 16 * 16;
  template <class T, int N>
  Shared<T, N> take(const char* name) {
    return {&host::shared_array(taken_++, name, N * sizeof(T), sizeof(T))};
  }

 private:
  size_t taken_ = 0;
};

inline int thread() { return host::position().thread; }
inline int threads() { return host::position().threads; }
inline int block_x() { return static_cast<int>(host::position().block[0]); }
inline int block_y() { return static_cast<int>(host::position().block[1]); }
inline int block_z() { return static_cast<int>(host::position().block[2]); }
inline int blocks_x() { return static_cast<int>(host::position().blocks[0]); }
inline void sync_block(host::Site site = host::Site::current()) { host::sync_block(site); }
inline void sync_warp(host::Site site = host::Site::current()) {
  host::collective("sync_warp", site, nullptr, [](void* const*) {});
}

template <class T>
T shuffle_xor(T value, int mask, host::Site site = host::Site::current()) {
  struct {
    T in, out;
  } mine{value, {}};
  host::with_lanes("shuffle_xor", site, mine, [&](auto* of) {
    for (int i = 0; i < 32; ++i) of[i]->out = of[i ^ mask]->in;
  });
  return mine.out;
}
template <class T>
T shuffle(T value, int lane, host::Site site = host::Site::current()) {
  struct {
    T in, out;
    int lane;
  } mine{value, {}, lane};
  host::with_lanes("shuffle", site, mine, [&](auto* of) {
    for (int i = 0; i < 32; ++i) of[i]->out = of[of[i]->lane & 31]->in;
  });
  return mine.out;
}
template <class T>
T shuffle_up(T value, int distance, host::Site site = host::Site::current()) {
  struct {
    T in, out;
  } mine{value, {}};
  host::with_lanes("shuffle_up", site, mine, [&](auto* of) {
    for (int i = 0; i < 32; ++i) of[i]->out = of[i >= distance ? i - distance : i]->in;
  });
  return mine.out;
}
inline uint32_t ballot(bool vote, host::Site site = host::Site::current()) {
  struct {
    bool vote;
    uint32_t out;
  } mine{vote, 0};
  host::with_lanes("ballot", site, mine, [](auto* of) {
    uint32_t votes = 0;
    for (uint32_t i = 0; i < 32; ++i) votes |= uint32_t{of[i]->vote} << i;
    for (int i = 0; i < 32; ++i) of[i]->out = votes;
  });
  return mine.out;
}

inline float add_rn(float a, float b) { return a + b; }
inline float sub_rn(float a, float b) { return a - b; }
inline float mul_rn(float a, float b) { return a * b; }
inline float div_rn(float a, float b) { return a / b; }
inline float sqrt_rn(float a) { return std::sqrt(a); }
inline double add_rn(double a, double b) { return a + b; }
inline double mul_rn(double a, double b) { return a * b; }
inline float exp2_fast(float x) { return std::exp2(x); }
inline float reciprocal(float x) { return 1 / x; }
inline int bit_count(uint32_t x) { return __builtin_popcount(x); }
inline uint32_t round_pair(float low, float high, bf16_t) {
  return uint32_t{to_bf16(low).bits} | uint32_t{to_bf16(high).bits} << 16;
}
inline uint32_t round_pair(float low, float high, f16_t) {
  return uint32_t{to_f16(low).bits} | uint32_t{to_f16(high).bits} << 16;
}
inline float widen(f16_t x) { return to_float(x); }

namespace host {
template <class T>
float low_half(uint32_t pair, T) {
  return to_float(T{static_cast<uint16_t>(pair)});
}
template <class T>
float high_half(uint32_t pair, T) {
  return to_float(T{static_cast<uint16_t>(pair >> 16)});
}

template <class T>
void multiply_fragments(float* const* d, const uint32_t* const* a, const uint32_t* const* b) {
  float rows[16][16], columns[16][8], sums[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane >> 2, t = 2 * (lane & 3);
    for (int r = 0; r < 4; ++r) {
      const int row = g + 8 * (r & 1), column = t + 8 * (r >> 1);
      rows[row][column] = low_half(a[lane][r], T{});
      rows[row][column + 1] = high_half(a[lane][r], T{});
    }
    for (int r = 0; r < 2; ++r) {
      columns[t + 8 * r][g] = low_half(b[lane][r], T{});
      columns[t + 8 * r + 1][g] = high_half(b[lane][r], T{});
    }
    for (int r = 0; r < 4; ++r) sums[g + 8 * (r >> 1)][t + (r & 1)] = d[lane][r];
  }
  for (int i = 0; i < 16; ++i)
    for (int k = 0; k < 16; ++k)
      for (int j = 0; j < 8; ++j) sums[i][j] += rows[i][k] * columns[k][j];
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane >> 2, t = 2 * (lane & 3);
    for (int r = 0; r < 4; ++r) d[lane][r] = sums[g + 8 * (r >> 1)][t + (r & 1)];
  }
}
}  // namespace host

template <class T>
void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, T, host::Site site = host::Site::current()) {
  struct {
    float* d;
    const uint32_t* a;
    uint32_t b[2];
  } mine{d, a, {b0, b1}};
  host::with_lanes("mma", site, mine, [](auto* of) {
    float* sums[32];
    const uint32_t *rows[32], *columns[32];
    for (int i = 0; i < 32; ++i) sums[i] = of[i]->d, rows[i] = of[i]->a, columns[i] = of[i]->b;
    host::multiply_fragments<T>(sums, rows, columns);
  });
}

namespace host {
template <class T, int N>
void load_matrices(uint32_t (&r)[4], Shared<T, N> from, int row, bool transposed, Site site) {
  static_assert(sizeof(T) == 2);
  from.check(row, 8);
  if (row % 8 != 0) fault("ldmatrix: a row of " + from.array->name + " is not aligned to 16 bytes");
  check_shared_read(*from.array, row, 8);
  struct {
    uint32_t* r;
    const T* row;
  } mine{r, from.at(row)};
  with_lanes(transposed ? "ldmatrix_x4_transposed" : "ldmatrix_x4", site, mine, [&](auto* of) {
    for (int k = 0; k < 4; ++k)
      for (int lane = 0; lane < 32; ++lane) {
        const int g = lane >> 2, t = 2 * (lane & 3);
        const auto at = [&](int i, int j) {
          return uint32_t{transposed ? of[8 * k + j]->row[i].bits : of[8 * k + i]->row[j].bits};
        };
        of[lane]->r[k] = at(g, t) | at(g, t + 1) << 16;
      }
  });
}
}  // namespace host

template <class T, int N>
void ldmatrix_x4(uint32_t (&r)[4], Shared<T, N> from, int row, host::Site site = host::Site::current()) {
  host::load_matrices(r, from, row, false, site);
}
template <class T, int N>
void ldmatrix_x4_transposed(uint32_t (&r)[4], Shared<T, N> from, int row, host::Site site = host::Site::current()) {
  host::load_matrices(r, from, row, true, site);
}

template <class T, int N>
void copy_async16(Shared<T, N> to, int at, Global<const T> from, int64_t first, bool valid) {
  constexpr int kCount = 16 / static_cast<int>(sizeof(T));
  to.check(at, kCount);
  if (at % kCount != 0) host::fault("copy_async16: element " + std::to_string(at) + " of " + to.array->name);
  host::begin_copy({to.at(at), valid ? from.checked(first, kCount, 16) : nullptr, to.array, at, kCount});
}
inline void copy_async_commit() { host::commit_copies(); }
template <int kPending>
void copy_async_wait() {
  host::wait_copies(kPending);
}

constexpr bool kSmallSharedMemory = false;
inline bool small_shared_memory() { return false; }

struct alignas(16) Bits128 {
  uint32_t words[4];
};
template <class T>
Bits128 load128(Global<T> from, int64_t first) {
  Bits128 bits;
  std::memcpy(&bits, from.checked(first, 16 / static_cast<int64_t>(sizeof(T)), 16), 16);
  return bits;
}
template <class T>
void store128(Bits128 x, Global<T> to, int64_t first) {
  std::memcpy(static_cast<void*>(to.checked(first, 16 / static_cast<int64_t>(sizeof(T)), 16)), &x, 16);
}
template <class T>
void store_pair(uint32_t x, Global<T> to, int64_t first) {
  std::memcpy(static_cast<void*>(to.checked(first, 2, 4)), &x, 4);
}

template <class Arguments>
void launch(const char* name, Stream, Grid grid, int threads, int shared_bytes, void (*kernel)(Arguments),
            const Arguments& arguments) {
  host::run(name, grid, threads, shared_bytes, [&] { kernel(arguments); });
}

}  // namespace trireme::gpu
