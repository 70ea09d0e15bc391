#include "cuda/nccl.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "cuda/stream.h"
#include "tensor/device.h"

namespace trireme {
namespace {

using nccl::Library;
using nccl::Result;

constexpr std::chrono::microseconds kLook{100};
constexpr std::chrono::seconds kAbort{2}, kEnd{10};

/// A communicator until it is destroyed or aborted, which takes it away from all other calls.
class NcclCommunicator {
 public:
  NcclCommunicator(Device& device, const Library& library) : device_(device), library_(library) {}
  ~NcclCommunicator() {
    if (comm_ == nullptr) return;
    use();
    library_.finalize(comm_);
    const auto start = Clock::now();
    while (state() == nccl::kInProgress && Clock::now() - start < kEnd) std::this_thread::sleep_for(kLook);
    if (state() == nccl::kSuccess)
      library_.destroy(comm_);
    else
      abort();
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  const Library& library() const { return library_; }
  ncclComm* get() const { return comm_; }
  ncclComm** place() { return &comm_; }
  /// The GPU becomes the calling thread's.
  void use() const { gpu_stream(device_.stream()); }
  Result state() const {
    Result result = nccl::kSuccess;
    const Result answer = library_.state(comm_, &result);
    return answer == nccl::kSuccess ? result : answer;
  }

  /// Throws Error::peer for an answer that means that the network or another rank is lost, Error::comm for any other
  /// one but success and in progress.
  void check(Result answer, const char* call) const {
    if (answer == nccl::kSuccess || answer == nccl::kInProgress) return;
    const char* words = library_.last_error(comm_);
    const bool lost = answer == nccl::kSystemError || answer == nccl::kRemoteError;
    fail(lost ? ErrorKind::peer : ErrorKind::comm, "{} failed between GPUs: {}{}{}", call, library_.error_text(answer),
         words && *words ? ": " : "", words ? words : "");
  }

  /// Waits, if the call goes on in the background.
  void finish(Result answer, const char* call, std::chrono::duration<double> limit) const {
    const auto start = Clock::now();
    while (answer == nccl::kInProgress) {
      require(Clock::now() - start < limit, ErrorKind::peer,
              "{} did not complete within {:.3g} s: the other ranks of the group do not answer", call, limit.count());
      std::this_thread::sleep_for(kLook);
      answer = state();
    }
    check(answer, call);
  }

  /// NCCL may wait in it for what it can no longer get: another thread calls it.
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
  /// nullptr: there is nothing to abort.
  std::shared_ptr<Ending> begin_abort() {
    ncclComm* comm = std::exchange(comm_, nullptr);
    if (comm == nullptr) return {};
    auto ending = std::make_shared<Ending>();
    std::thread([ending, comm, call = library_.abort, &device = device_] {
      gpu_stream(device.stream());
      call(comm);
      ending->end();
    }).detach();
    return ending;
  }
  void abort() noexcept {
    if (const auto ending = begin_abort()) ending->wait_until(Clock::now() + kAbort);
  }

 private:
  Device& device_;
  const Library& library_;
  ncclComm* comm_ = nullptr;
};

class NcclLinks;
using AllLinks = std::vector<NcclLinks*>;

class NcclLinks final : public DeviceLinks {
 public:
  /// all: of the process, while they are there.
  NcclLinks(Device& device, const Library& library, std::chrono::duration<double> limit, std::shared_ptr<AllLinks> all,
            const DeviceNetwork::Id& id, int rank, int size)
      : limit_(limit), all_(std::move(all)), comm_(device, library) {
    nccl::Config config;
    config.most_blocks = kLinkBlocks;
    comm_.use();
    try {
      const Result answer = library.connect(comm_.place(), size, nccl::UniqueId{id}, rank, &config);
      comm_.finish(answer, "ncclCommInitRankConfig", limit_);
    } catch (...) {
      comm_.abort();
      throw;
    }
    all_->push_back(this);
  }
  ~NcclLinks() override { std::erase(*all_, this); }
  NcclLinks(const NcclLinks&) = delete;
  NcclLinks& operator=(const NcclLinks&) = delete;

  void exchange(DeviceStream& stream, std::span<const Part> parts) override {
    const Library& library = comm_.library();
    const gpu::Stream on = gpu_stream(stream);
    comm_.check(library.begin_group(), "ncclGroupStart");
    for (const Part& part : parts) {
      if (part.out.count() > 0)
        comm_.check(library.issue_send(part.out.data(), part.out.bytes(), nccl::kBytes, part.peer, comm_.get(), on),
                    "ncclSend");
      if (part.in.count() > 0)
        comm_.check(library.issue_receive(part.in.data(), part.in.bytes(), nccl::kBytes, part.peer, comm_.get(), on),
                    "ncclRecv");
    }
    // What follows in the stream may only be issued when the messages have been.
    comm_.finish(library.end_group(), "ncclGroupEnd", limit_);
  }

  void collective(DeviceStream& stream, DeviceCollective which, ConstView in, View out, int root) override {
    const Library& l = comm_.library();
    const gpu::Stream on = gpu_stream(stream);
    const int type = in.dtype() == DType::f32    ? nccl::kFloat
                     : in.dtype() == DType::bf16 ? nccl::kBfloat16
                                                 : nccl::kHalf;
    const auto sent = static_cast<size_t>(in.count()), got = static_cast<size_t>(out.count());
    comm_.check(l.begin_group(), "ncclGroupStart");
    switch (which) {
      case DeviceCollective::all_reduce:
        comm_.check(l.issue_all_reduce(in.data(), out.data(), sent, type, nccl::kSum, comm_.get(), on),
                    "ncclAllReduce");
        break;
      case DeviceCollective::reduce_scatter:
        comm_.check(l.issue_reduce_scatter(in.data(), out.data(), got, type, nccl::kSum, comm_.get(), on),
                    "ncclReduceScatter");
        break;
      case DeviceCollective::all_gather:
        comm_.check(l.issue_all_gather(in.data(), out.data(), sent, type, comm_.get(), on), "ncclAllGather");
        break;
      case DeviceCollective::broadcast:
        comm_.check(l.issue_broadcast(in.data(), out.data(), sent, type, root, comm_.get(), on), "ncclBroadcast");
        break;
    }
    comm_.finish(l.end_group(), "ncclGroupEnd", limit_);
  }

  void check() override {
    require(comm_.get() != nullptr, ErrorKind::comm, "the connection between GPUs was abandoned");
    comm_.check(comm_.state(), "a message");
  }
  void abort() noexcept override { comm_.abort(); }
  NcclCommunicator& communicator() { return comm_; }

 private:
  const std::chrono::duration<double> limit_;
  const std::shared_ptr<AllLinks> all_;
  NcclCommunicator comm_;
};

class NcclNetwork final : public DeviceNetwork {
 public:
  NcclNetwork(Device& device, const Library& library, std::chrono::duration<double> limit)
      : device_(device), library_(library), limit_(limit) {}
  std::string name() const override { return fmt::format("NCCL {}", nccl::version_text(library_.number)); }
  Id make_id() override {
    nccl::UniqueId id{};
    const Result answer = library_.make_id(&id);
    require(answer == nccl::kSuccess, ErrorKind::comm, "ncclGetUniqueId failed: {}: {}", library_.error_text(answer),
            library_.last_error(nullptr));
    return id.bytes;
  }
  std::unique_ptr<DeviceLinks> connect(const Id& id, int rank, int size) override {
    return std::make_unique<NcclLinks>(device_, library_, limit_, all_, id, rank, size);
  }
  void check() override {
    for (NcclLinks* links : *all_) links->check();
  }

 private:
  /// Together: one may have to wait for another one's end.
  void abort_all() noexcept override {
    std::vector<std::shared_ptr<NcclCommunicator::Ending>> endings;
    for (NcclLinks* links : *all_) endings.push_back(links->communicator().begin_abort());
    const auto limit = Clock::now() + kAbort;
    for (const auto& ending : endings)
      if (ending) ending->wait_until(limit);
  }

  Device& device_;
  const Library library_;
  const std::chrono::duration<double> limit_;
  const std::shared_ptr<AllLinks> all_ = std::make_shared<AllLinks>();
};

}  // namespace

std::unique_ptr<DeviceNetwork> make_nccl_network(Device& device, const nccl::Library& library,
                                                 std::chrono::duration<double> limit) {
  return std::make_unique<NcclNetwork>(device, library, limit);
}

}  // namespace trireme
