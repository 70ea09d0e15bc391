#include "gpu_executor.h"

#include <boost/context/detail/fcontext.hpp>

#include <algorithm>
#include <exception>
#include <random>
#include <utility>

#ifdef __SANITIZE_ADDRESS__  // it has to know which stack is in use
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define __sanitizer_start_switch_fiber(kept, bottom, size) static_cast<void>(0)
#define __sanitizer_finish_switch_fiber(kept, bottom, size) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(address, size) static_cast<void>(0)
#endif

namespace trireme::gpu::host {
namespace {

namespace ctx = boost::context::detail;
constexpr size_t kStack = size_t{64} << 10;
constexpr int kLanes = 32;

enum class State : uint8_t { ready, in_block, in_warp, ended };

struct Lane {
  ctx::fcontext_t at = nullptr;
  State state = State::ready;
  const char* waits_for = nullptr;
  Site site;
  void* arguments = nullptr;
  void* kept = nullptr;  ///< of the address sanitizer
  std::deque<std::vector<Copy>> groups;
  std::vector<Copy> open;
};

struct Warp {
  int arrived = 0;
  uint32_t epoch = 0;
};

struct Machine {
  std::unique_ptr<char[]> stacks;
  size_t stack_count = 0;
  std::vector<Lane> lanes;
  std::vector<Warp> warps;
  std::vector<std::unique_ptr<SharedArray>> shared;
  int shared_bytes = 0, shared_taken = 0;
  uint32_t epoch = 0;
  int in_block = 0, ended = 0;
  ctx::fcontext_t scheduler = nullptr;
  const void* scheduler_stack = nullptr;
  size_t scheduler_size = 0;
  Position position;
  const char* name = "";
  const std::function<void()>* kernel = nullptr;
  std::exception_ptr error;
  std::mt19937_64 order{1};
};

Machine& machine() {
  thread_local Machine m;
  return m;
}

Lane& current() {
  Machine& m = machine();
  return m.lanes[static_cast<size_t>(m.position.thread)];
}

std::string place(const Site& site) {
  const std::string file = site.file_name();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(site.line());
}

bool same(const Site& a, const Site& b) {
  return a.line() == b.line() && a.column() == b.column() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

void yield() {
  Machine& m = machine();
  [[maybe_unused]] Lane& lane = current();
  __sanitizer_start_switch_fiber(&lane.kept, m.scheduler_stack, m.scheduler_size);
  m.scheduler = ctx::jump_fcontext(m.scheduler, nullptr).fctx;
  __sanitizer_finish_switch_fiber(lane.kept, &m.scheduler_stack, &m.scheduler_size);
}

void enter(ctx::transfer_t from) {
  Machine& m = machine();
  __sanitizer_finish_switch_fiber(nullptr, &m.scheduler_stack, &m.scheduler_size);
  m.scheduler = from.fctx;
  try {
    (*m.kernel)();
    if (!current().groups.empty() || !current().open.empty()) fault("a thread ends with copies that it did not await");
  } catch (...) {
    if (!m.error) m.error = std::current_exception();
  }
  current().state = State::ended;
  ++m.ended;
  __sanitizer_start_switch_fiber(nullptr, m.scheduler_stack, m.scheduler_size);
  ctx::jump_fcontext(m.scheduler, nullptr);
  std::terminate();
}

void resume(int thread) {
  Machine& m = machine();
  m.position.thread = thread;
  Lane& lane = m.lanes[static_cast<size_t>(thread)];
  void* kept = nullptr;
  __sanitizer_start_switch_fiber(&kept, m.stacks.get() + static_cast<size_t>(thread) * kStack, kStack);
  lane.at = ctx::jump_fcontext(lane.at, nullptr).fctx;
  __sanitizer_finish_switch_fiber(kept, nullptr, nullptr);
  static_cast<void>(kept);
}

/// Whether an access of another thread to an element, made at these epochs, is not ordered with one of the running
/// thread.
bool unordered(int other, uint32_t epoch, uint32_t warp_epoch) {
  const Machine& m = machine();
  const int me = m.position.thread;
  if (other < 0 || other == me || epoch != m.epoch) return false;
  return other / kLanes != me / kLanes || warp_epoch == m.warps[static_cast<size_t>(me / kLanes)].epoch;
}

std::string element(const SharedArray& array, int i) { return array.name + "[" + std::to_string(i) + "]"; }

void run_block() {
  Machine& m = machine();
  const int threads = m.position.threads;
  m.in_block = m.ended = 0;
  m.epoch = 1;
  m.shared.clear();
  m.shared_taken = 0;
  m.lanes.assign(static_cast<size_t>(threads), {});
  m.warps.assign(static_cast<size_t>(threads / kLanes), {});
  for (int i = 0; i < threads; ++i)
    m.lanes[static_cast<size_t>(i)].at =
        ctx::make_fcontext(m.stacks.get() + static_cast<size_t>(i + 1) * kStack, kStack, enter);
  std::vector<int> warps(m.warps.size());
  for (size_t i = 0; i < warps.size(); ++i) warps[i] = static_cast<int>(i);
  while (m.ended < threads) {
    bool progress = false;
    std::shuffle(warps.begin(), warps.end(), m.order);
    for (const int w : warps)
      for (bool any = true; any;) {  // a warp as far as it gets
        any = false;
        for (int i = w * kLanes; i < (w + 1) * kLanes; ++i)
          if (m.lanes[static_cast<size_t>(i)].state == State::ready) {
            resume(i);
            if (m.error) return;
            any = progress = true;
          }
      }
    if (m.in_block == threads) {
      m.in_block = 0;
      ++m.epoch;
      for (Lane& lane : m.lanes) lane.state = State::ready;
      progress = true;
    }
    if (!progress) {
      const auto stuck = std::find_if(m.lanes.begin(), m.lanes.end(), [](const Lane& lane) {
        return lane.state == State::in_warp || lane.state == State::in_block;
      });
      ASAN_UNPOISON_MEMORY_REGION(m.stacks.get(), m.stack_count * kStack);
      fault(std::string(stuck->waits_for) + " at " + place(stuck->site) + " is not reached by all threads: " +
            std::to_string(m.ended) + " of " + std::to_string(threads) + " have ended");
    }
  }
}

}  // namespace

const Position& position() { return machine().position; }

void fault(const std::string& what) {
  const Machine& m = machine();
  throw Fault("kernel " + std::string(m.name) + ", block " + std::to_string(m.position.block[0]) + ", thread " +
              std::to_string(m.position.thread) + ": " + what);
}

void set_seed(uint64_t seed) { machine().order.seed(seed); }

SharedArray& shared_array(size_t n, const char* name, size_t size, size_t element) {
  Machine& m = machine();
  if (n == m.shared.size()) {
    auto array = std::make_unique<SharedArray>();
    array->name = name;
    array->bytes.assign(size, 0xff);
    array->elements.assign(size / element, {});
    m.shared_taken += static_cast<int>((size + 15) / 16 * 16);
    if (m.shared_taken > m.shared_bytes)
      fault("shared array " + array->name + " exceeds the " + std::to_string(m.shared_bytes) + " bytes of the launch");
    m.shared.push_back(std::move(array));
  }
  if (m.shared[n]->name != name) fault("threads ask for shared arrays in different order");
  return *m.shared[n];
}

void check_shared_read(SharedArray& array, int first, int count) {
  const Machine& m = machine();
  const auto me = static_cast<int16_t>(m.position.thread);
  const uint32_t warp_epoch = m.warps[static_cast<size_t>(me / kLanes)].epoch;
  for (int i = first; i < first + count; ++i) {
    Element& e = array.elements[static_cast<size_t>(i)];
    if (e.pending) fault(element(array, i) + " is read before its copy was awaited");
    if (e.writer < 0) fault(element(array, i) + " is read before any thread wrote it");
    if (unordered(e.writer, e.write_epoch, e.write_warp_epoch))
      fault(element(array, i) + " is read while thread " + std::to_string(e.writer) + " may write it");
    if (e.reader < 0 || e.read_epoch != m.epoch) {
      e.reader = me, e.other_reader = -1;
    } else if (e.reader != me) {
      e.other_reader = me;
    }
    e.read_epoch = m.epoch;
    e.read_warp_epoch = warp_epoch;
  }
}

void check_shared_write(SharedArray& array, int first, int count) {
  const Machine& m = machine();
  const auto me = static_cast<int16_t>(m.position.thread);
  for (int i = first; i < first + count; ++i) {
    Element& e = array.elements[static_cast<size_t>(i)];
    if (e.pending) fault(element(array, i) + " is written before its copy was awaited");
    for (const int16_t reader : {e.reader, e.other_reader})
      if (unordered(reader, e.read_epoch, e.read_warp_epoch))
        fault(element(array, i) + " is written while thread " + std::to_string(reader) + " may read it");
    if (unordered(e.writer, e.write_epoch, e.write_warp_epoch))
      fault(element(array, i) + " is written while thread " + std::to_string(e.writer) + " may write it");
    e.writer = me;
    e.write_epoch = m.epoch;
    e.write_warp_epoch = m.warps[static_cast<size_t>(me / kLanes)].epoch;
  }
}

void begin_copy(const Copy& copy) {
  check_shared_write(*copy.array, copy.first, copy.count);
  std::memset(copy.to, 0xff, 16);
  for (int i = copy.first; i < copy.first + copy.count; ++i)
    copy.array->elements[static_cast<size_t>(i)].pending = true;
  current().open.push_back(copy);
}

void commit_copies() {
  Lane& lane = current();
  lane.groups.push_back(std::move(lane.open));
  lane.open.clear();
}

void wait_copies(int pending) {
  Lane& lane = current();
  while (lane.groups.size() > static_cast<size_t>(pending)) {
    for (const Copy& copy : lane.groups.front()) {
      if (copy.from) {
        std::memcpy(copy.to, copy.from, 16);
      } else {
        std::memset(copy.to, 0, 16);
      }
      for (int i = copy.first; i < copy.first + copy.count; ++i)
        copy.array->elements[static_cast<size_t>(i)].pending = false;
      check_shared_write(*copy.array, copy.first, copy.count);
    }
    lane.groups.pop_front();
  }
}

void sync_block(Site site) {
  Machine& m = machine();
  for (const Lane& lane : m.lanes)
    if (lane.state == State::in_block && !same(lane.site, site)) {
      fault("sync_block at " + place(site) + ", while another thread is in the one at " + place(lane.site));
    } else if (lane.state == State::in_block) {
      break;
    }
  Lane& lane = current();
  lane.state = State::in_block;
  lane.waits_for = "sync_block";
  lane.site = site;
  ++m.in_block;
  yield();
}

void collective(const char* name, Site site, void* arguments, const std::function<void(void* const*)>& all) {
  Machine& m = machine();
  const int first = m.position.thread / kLanes * kLanes;
  Warp& warp = m.warps[static_cast<size_t>(first / kLanes)];
  Lane& lane = current();
  lane.arguments = arguments;
  lane.site = site;
  lane.waits_for = name;
  if (++warp.arrived < kLanes) {
    lane.state = State::in_warp;
    yield();
    return;
  }
  void* of[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    Lane& other = m.lanes[static_cast<size_t>(first + i)];
    if (!same(other.site, site) || std::strcmp(other.waits_for, name) != 0)
      fault(std::string(name) + " at " + place(site) + ", while lane " + std::to_string(i) + " is in " +
            other.waits_for + " at " + place(other.site));
    of[i] = other.arguments;
  }
  warp.arrived = 0;
  ++warp.epoch;
  all(of);
  for (int i = 0; i < kLanes; ++i) {
    Lane& other = m.lanes[static_cast<size_t>(first + i)];
    if (other.state == State::in_warp) other.state = State::ready;
  }
}

void run(const char* name, Grid grid, int threads, int shared_bytes, const std::function<void()>& kernel) {
  Machine& m = machine();
  m.name = name;
  m.position = {};
  if (threads % kLanes != 0 || threads <= 0 || threads > 1024) fault("a block of " + std::to_string(threads));
  if (m.stack_count < static_cast<size_t>(threads)) {
    m.stack_count = static_cast<size_t>(threads);
    m.stacks = std::make_unique_for_overwrite<char[]>(m.stack_count * kStack);
  }
  m.kernel = &kernel;
  m.shared_bytes = shared_bytes;
  m.error = nullptr;
  m.position.threads = threads;
  const int64_t sizes[3] = {grid.x, grid.y, grid.z};
  std::copy_n(sizes, 3, m.position.blocks);
  for (int64_t z = 0; z < grid.z; ++z)
    for (int64_t y = 0; y < grid.y; ++y)
      for (int64_t x = 0; x < grid.x; ++x) {
        m.position.block[0] = x, m.position.block[1] = y, m.position.block[2] = z;
        run_block();
        if (m.error) {  // stacks of threads that did not end are dropped
          ASAN_UNPOISON_MEMORY_REGION(m.stacks.get(), m.stack_count * kStack);
          std::rethrow_exception(std::exchange(m.error, nullptr));
        }
      }
}

}  // namespace trireme::gpu::host
