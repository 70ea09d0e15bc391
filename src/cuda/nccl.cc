#include "cuda/nccl.h"

#include <fmt/format.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/time.h"
#include "cuda/stream.h"
#include "tensor/device.h"

namespace trireme {
namespace {

using nccl::Library;
using nccl::Result;

constexpr std::chrono::microseconds kLook{100};
constexpr std::chrono::seconds kAbort{2}, kEnd{10};

class NcclLinks;

/// What the groups of a network share.
struct Shared {
  Device& device;
  const Library library;
  const std::chrono::duration<double> limit;
  /// Held during every call of the library, of which none waits: an abort by another thread comes between two of them.
  std::timed_mutex calls{};
  std::vector<NcclLinks*> all{};  ///< of the process, while they are there; changed with `calls` held
};

nccl::Config config_of(LinkUse use) {
  nccl::Config config;
  config.most_blocks = use == LinkUse::tensors ? kLinkBlocks : 1;
  config.shares_on_split = 0;
  return config;
}

/// NCCL may wait in an abort for what it can no longer get: another thread calls it.
class Ending {
 public:
  void end() {
    const std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }
  void wait_until(Clock::time_point time) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, time, [&] { return done_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

/// A communicator until it is destroyed or aborted, which takes it away from all other calls.
class NcclCommunicator {
 public:
  explicit NcclCommunicator(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  ~NcclCommunicator() {
    ncclComm* comm = nullptr;
    {
      const std::lock_guard lock(shared_->calls);
      comm = std::exchange(comm_, nullptr);
    }
    if (comm == nullptr) return;
    make_current(shared_->device);
    library().finalize(comm);
    const auto start = Clock::now();
    Result state = state_of(comm);
    for (; state == nccl::kInProgress && Clock::now() - start < kEnd; state = state_of(comm))
      std::this_thread::sleep_for(kLook);
    if (state == nccl::kSuccess)
      library().destroy(comm);
    else
      abort_beside({comm, nullptr})->wait_until(Clock::now() + kAbort);
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  const Library& library() const { return shared_->library; }
  /// With `calls` held, as get() and begin_abort().
  bool there() const { return comm_ != nullptr; }
  ncclComm* get() const {
    require(there(), ErrorKind::comm, "the NCCL communicator was aborted after an earlier error");
    return comm_;
  }
  Result state() const {
    const std::lock_guard lock(shared_->calls);
    return state_of(get());
  }

  /// Collective, as split().
  void connect(const nccl::UniqueId& id, int rank, int size) {
    constexpr const char* kCall = "ncclCommInitRankConfig";
    nccl::Config config = config_of(LinkUse::splits);
    Result answer = nccl::kSuccess;
    {
      const std::lock_guard lock(shared_->calls);
      make_current(shared_->device);
      answer = library().connect(place_.get(), size, id, rank, &config);
      comm_ = *place_;
    }
    finish_or_abort(answer, kCall, *this);
  }
  /// Becomes the group's part of `parent`. Until that is done NCCL reports it by the state of the parent, which is
  /// aborted if it fails.
  void split(NcclCommunicator& parent, std::optional<int> color, int key, LinkUse use) {
    constexpr const char* kCall = "ncclCommSplit";
    nccl::Config config = config_of(use);
    Result answer = nccl::kSuccess;
    {
      const std::lock_guard lock(shared_->calls);
      ncclComm* from = parent.get();
      parent.child_ = place_;
      make_current(shared_->device);
      answer = library().split(from, color.value_or(nccl::kNoColor), key, place_.get(), &config);
    }
    parent.finish_or_abort(answer, kCall, parent);
    {
      const std::lock_guard lock(shared_->calls);
      parent.get();  // an abort in between has ended both
      parent.child_.reset();
      comm_ = *place_;
    }
    if (!color) return;
    finish_or_abort(nccl::kInProgress, kCall, *this);
  }

  /// Throws Error::peer for an answer that means that the network or another rank is lost, Error::comm for any other
  /// one but success and in progress.
  void check(Result answer, const char* call) const {
    if (answer == nccl::kSuccess || answer == nccl::kInProgress) return;
    const char* words = library().last_error(nullptr);
    const bool lost = answer == nccl::kSystemError || answer == nccl::kRemoteError;
    fail(lost ? ErrorKind::peer : ErrorKind::comm, "{} failed between GPUs: {}{}{}", call, library().error_text(answer),
         words && *words ? ": " : "", words ? words : "");
  }

  /// Waits, if the call goes on in the background.
  void finish(Result answer, const char* call) const {
    const auto start = Clock::now();
    while (answer == nccl::kInProgress) {
      require(Clock::now() - start < shared_->limit, ErrorKind::peer,
              "{} did not complete within {:.3g} s: the other ranks of the group do not answer", call,
              shared_->limit.count());
      std::this_thread::sleep_for(kLook);
      answer = state();
    }
    check(answer, call);
  }

  /// nullptr: there is nothing to abort.
  std::shared_ptr<Ending> begin_abort() {
    ncclComm* comm = std::exchange(comm_, nullptr);
    return comm == nullptr ? nullptr : abort_beside({comm, child_});
  }
  void abort() noexcept {
    std::shared_ptr<Ending> ending;
    {
      const std::lock_guard lock(shared_->calls);
      ending = begin_abort();
    }
    if (ending) ending->wait_until(Clock::now() + kAbort);
  }

 private:
  /// Where NCCL writes a communicator, which it may do until that is connected or aborted.
  using Place = std::shared_ptr<ncclComm*>;
  struct Aborted {
    ncclComm* comm = nullptr;
    Place child{};  ///< of a split that may not be done
  };

  std::shared_ptr<Ending> abort_beside(const Aborted& what) {
    auto ending = std::make_shared<Ending>();
    std::thread([ending, what, place = place_, call = library().abort, &device = shared_->device] {
      make_current(device);
      call(what.comm);  // returns after the split has ended
      if (what.child && *what.child) call(*what.child);
      ending->end();
    }).detach();
    return ending;
  }
  void finish_or_abort(Result answer, const char* call, NcclCommunicator& aborted) {
    try {
      finish(answer, call);
    } catch (...) {
      aborted.abort();
      throw;
    }
  }
  Result state_of(ncclComm* comm) const {
    Result result = nccl::kSuccess;
    const Result answer = library().state(comm, &result);
    return answer == nccl::kSuccess ? result : answer;
  }
  /// The GPU becomes the calling thread's, unless it has failed.
  static void make_current(Device& device) noexcept {
    try {
      gpu_stream(device.stream());
    } catch (const Error&) {  // what is destroyed or aborted then does not use it
    }
  }

  const std::shared_ptr<Shared> shared_;
  const Place place_ = std::make_shared<ncclComm*>(nullptr);
  Place child_;  ///< while this is split
  ncclComm* comm_ = nullptr;
};

class NcclLinks final : public DeviceLinks {
 public:
  /// Not yet connected.
  explicit NcclLinks(const std::shared_ptr<Shared>& shared) : shared_(shared), comm_(shared) {
    const std::lock_guard lock(shared_->calls);
    shared_->all.push_back(this);
  }
  ~NcclLinks() override {
    const std::lock_guard lock(shared_->calls);
    std::erase(shared_->all, this);
  }
  NcclLinks(const NcclLinks&) = delete;
  NcclLinks& operator=(const NcclLinks&) = delete;

  void exchange(DeviceStream& stream, std::span<const Part> parts) override {
    issue([&](const Library& library, ncclComm* comm) {
      const gpu::Stream on = gpu_stream(stream);
      for (const Part& part : parts) {
        if (part.out.count() > 0)
          comm_.check(library.issue_send(part.out.data(), part.out.bytes(), nccl::kBytes, part.peer, comm, on),
                      "ncclSend");
        if (part.in.count() > 0)
          comm_.check(library.issue_receive(part.in.data(), part.in.bytes(), nccl::kBytes, part.peer, comm, on),
                      "ncclRecv");
      }
    });
  }

  void collective(DeviceStream& stream, DeviceCollective which, ConstView in, View out, int root) override {
    const int type = in.dtype() == DType::f32    ? nccl::kFloat
                     : in.dtype() == DType::bf16 ? nccl::kBfloat16
                                                 : nccl::kHalf;
    const auto sent = static_cast<size_t>(in.count()), got = static_cast<size_t>(out.count());
    issue([&](const Library& l, ncclComm* comm) {
      const gpu::Stream on = gpu_stream(stream);
      switch (which) {
        case DeviceCollective::all_reduce:
          comm_.check(l.issue_all_reduce(in.data(), out.data(), sent, type, nccl::kSum, comm, on), "ncclAllReduce");
          break;
        case DeviceCollective::reduce_scatter:
          comm_.check(l.issue_reduce_scatter(in.data(), out.data(), got, type, nccl::kSum, comm, on),
                      "ncclReduceScatter");
          break;
        case DeviceCollective::all_gather:
          comm_.check(l.issue_all_gather(in.data(), out.data(), sent, type, comm, on), "ncclAllGather");
          break;
        case DeviceCollective::broadcast:
          comm_.check(l.issue_broadcast(in.data(), out.data(), sent, type, root, comm, on), "ncclBroadcast");
          break;
      }
    });
  }

  std::unique_ptr<DeviceLinks> split(std::optional<int> color, int key, LinkUse use) override {
    auto group = std::make_unique<NcclLinks>(shared_);
    group->comm_.split(comm_, color, key, use);
    return color ? std::move(group) : nullptr;
  }

  void check() override { comm_.check(comm_.state(), "a message"); }
  void abort() noexcept override { comm_.abort(); }
  NcclCommunicator& communicator() { return comm_; }

 private:
  /// calls: between the begin and the end of a group. What follows in the stream may only be issued when they have
  /// been.
  void issue(const auto& calls) {
    const Library& library = comm_.library();
    Result answer = nccl::kSuccess;
    {
      const std::lock_guard lock(shared_->calls);
      ncclComm* comm = comm_.get();
      comm_.check(library.begin_group(), "ncclGroupStart");
      calls(library, comm);
      answer = library.end_group();
    }
    comm_.finish(answer, "ncclGroupEnd");
  }

  const std::shared_ptr<Shared> shared_;
  NcclCommunicator comm_;
};

class NcclNetwork final : public DeviceNetwork {
 public:
  NcclNetwork(Device& device, const Library& library, std::chrono::duration<double> limit)
      : shared_(new Shared{device, library, limit}) {}
  std::string name() const override { return fmt::format("NCCL {}", nccl::version_text(shared_->library.number)); }
  Id make_id() override {
    const Library& library = shared_->library;
    nccl::UniqueId id{};
    const Result answer = library.make_id(&id);
    require(answer == nccl::kSuccess, ErrorKind::comm, "ncclGetUniqueId failed: {}: {}", library.error_text(answer),
            library.last_error(nullptr));
    return id.bytes;
  }
  std::unique_ptr<DeviceLinks> connect(const Id& id, int rank, int size) override {
    auto links = std::make_unique<NcclLinks>(shared_);
    links->communicator().connect(nccl::UniqueId{id}, rank, size);
    return links;
  }
  void check() override {
    for (NcclLinks* links : shared_->all) links->check();  // by the only thread that changes it
  }
  /// Together: one may have to wait for another one's end.
  void abort_all() noexcept override {
    const auto limit = Clock::now() + kAbort;
    std::vector<std::shared_ptr<Ending>> endings;
    {
      // A call that does not return keeps what it uses; the end of the process ends that, too.
      const std::unique_lock lock(shared_->calls, limit);
      if (!lock) return;
      for (NcclLinks* links : shared_->all) endings.push_back(links->communicator().begin_abort());
    }
    for (const auto& ending : endings)
      if (ending) ending->wait_until(limit);
  }

 private:
  const std::shared_ptr<Shared> shared_;
};

}  // namespace

std::unique_ptr<DeviceNetwork> make_nccl_network(Device& device, const nccl::Library& library,
                                                 std::chrono::duration<double> limit) {
  return std::make_unique<NcclNetwork>(device, library, limit);
}

}  // namespace trireme
