#pragma once
// The library that connects devices (tensor/device_network.h), made of Unix sockets, for ranks that are threads or
// processes on one host. It runs a call on the stream's thread, and demands what NCCL demands: calls of one thread, the
// same calls in the same order on all ranks, splits among them, with equal types and sizes, one stream for each group,
// and nothing under way while a group is split. It can hang, fail and lose a peer.

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/time.h"
#include "tensor/f16.h"
#include "tests/support/apart_device.h"

namespace trireme {

/// By the number of a call of exchange() in its process, from 0; -1: never.
struct NetworkFaults {
  int64_t hangs_at = -1;                  ///< that call is never done
  int64_t fails_at = -1;                  ///< after that call, check() throws
  int64_t dies_at = -1;                   ///< the process ends in that call
  std::function<void(size_t)> aborted{};  ///< is called after an abort of so many groups
};

class SocketLinks final : public DeviceLinks {
 public:
  struct Shared {  ///< by the groups of a rank
    Shared(ApartDevice& of, NetworkFaults wanted) : device(of), faults(std::move(wanted)) {}
    ApartDevice& device;
    NetworkFaults faults;
    double limit = 120;        ///< seconds for the other ranks to connect and to split
    std::thread::id thread{};  ///< that calls
    int64_t calls = 0;
    std::mutex mutex{};  ///< of `all`
    std::vector<SocketLinks*> all{};
    std::atomic<int64_t> messages = 0;  ///< that have arrived

    void demand_thread() {
      if (thread == std::thread::id{}) thread = std::this_thread::get_id();
      demand(thread == std::this_thread::get_id(), "a second thread calls the library of messages");
    }
    static void demand(bool holds, const std::string& what) {
      if (!holds) fail(ErrorKind::comm, "the twin of NCCL: {}", what);
    }
  };

  SocketLinks(std::shared_ptr<Shared> shared, const std::string& name, int rank, int size)
      : shared_(std::move(shared)), rank_(rank), peers_(static_cast<size_t>(size)) {
    connect_all(name, size);
    name_ = name;
    const std::lock_guard lock(shared_->mutex);
    shared_->all.push_back(this);
  }
  ~SocketLinks() override {
    {
      const std::lock_guard lock(shared_->mutex);
      std::erase(shared_->all, this);
    }
    SocketLinks::abort();
    while (running_ > 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
    for (const Peer& peer : peers_)
      if (peer.socket >= 0) close(peer.socket);
  }
  SocketLinks(const SocketLinks&) = delete;
  SocketLinks& operator=(const SocketLinks&) = delete;

  void exchange(DeviceStream& stream, std::span<const Part> parts) override {
    demand_stream(stream);
    Shared::demand(!parts.empty(), "a call without messages");
    for (const Part& part : parts) {
      Shared::demand(part.peer >= 0 && part.peer < static_cast<int>(peers_.size()) && part.peer != rank_,
                     "a peer that is not in the group");
      for (const ConstView& x : {part.out, ConstView(part.in)})
        Shared::demand(x.count() == 0 || x.device() == &shared_->device, "a tensor of another device");
    }
    issue(stream, [this, all = std::vector<Part>(parts.begin(), parts.end())] { run(all); });
  }

  /// Every rank sends its values to all. Piece p of a sum is added up as along a ring, from rank p + 1's values on, and
  /// rounded after each.
  void collective(DeviceStream& stream, DeviceCollective which, ConstView in, View out, int root) override {
    demand_stream(stream);
    ++running_;
    static_cast<ApartStream&>(stream).issue(
        [this, which, root, from = shared_->device.inside(in), to = shared_->device.inside(out)] {
          run_collective(which, from, to, root);
          --running_;
        });
  }

  /// All ranks tell all others.
  std::unique_ptr<DeviceLinks> split(std::optional<int> color, int key, LinkUse) override {
    shared_->demand_thread();
    check();
    Shared::demand(running_ == 0, "a split of connections that are in use");
    struct Wish {
      int64_t color, key;
    };
    std::vector<Wish> wishes(peers_.size());
    Wish& own = wishes[static_cast<size_t>(rank_)] = {color.value_or(-1), key};
    std::vector<Transfer> transfers;
    for (size_t r = 0; r < peers_.size(); ++r) {
      if (static_cast<int>(r) == rank_) continue;
      add(transfers, peers_[r], true, View(&own, DType::i64, {2}), kSplit);
      add(transfers, peers_[r], false, View(&wishes[r], DType::i64, {2}), kSplit);
    }
    const auto start = Clock::now();
    while (!move(transfers)) {
      check();
      if (seconds_since(start) > shared_->limit) failed("the other ranks of a group did not split it", true);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    ++splits_;
    if (!color) return nullptr;
    std::vector<std::pair<int64_t, int>> members;
    for (size_t r = 0; r < wishes.size(); ++r)
      if (wishes[r].color == *color) members.emplace_back(wishes[r].key, static_cast<int>(r));
    std::ranges::sort(members);
    const auto place = std::ranges::find(members, std::pair{own.key, rank_}) - members.begin();
    const size_t hash = std::hash<std::string>()(name_ + "/" + std::to_string(splits_) + "/" + std::to_string(*color));
    return std::make_unique<SocketLinks>(shared_, "trireme-" + std::to_string(hash), static_cast<int>(place),
                                         static_cast<int>(members.size()));
  }

  void check() override {
    if (!has_failed_) return Shared::demand(!aborted_, "the connection was abandoned");
    const std::lock_guard lock(mutex_);
    fail(lost_ ? ErrorKind::peer : ErrorKind::comm, "the twin of NCCL: {}", failure_);
  }
  bool has_failed() const { return has_failed_; }
  void abort() noexcept override {
    aborted_ = true;
    for (const Peer& peer : peers_)
      if (peer.socket >= 0) shutdown(peer.socket, SHUT_RDWR);
  }

 private:
  struct Header {
    int64_t bytes, dtype, number, kind;  ///< kind: 0: a message, 1 + the collective, kSplit
  };
  static constexpr int64_t kSplit = 5;
  struct Peer {
    int socket = -1;
    int64_t sent = 0, received = 0;
  };
  /// One direction with one peer.
  struct Transfer {
    Peer* peer = nullptr;
    bool out = false;
    Header header{}, arrived{};
    std::byte* data = nullptr;
    size_t done = 0;  ///< bytes, those of the header included
    size_t total() const { return sizeof(Header) + static_cast<size_t>(header.bytes); }
  };

  static sockaddr_un address(const std::string& name, int rank, socklen_t& length) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::string path = name + "-" + std::to_string(rank);
    // Files of a folder, for hosts that share one; else abstract names, which begin with a zero byte.
    const char* folder = std::getenv("TRIREME_EXECUTOR_SOCKETS");
    path = folder != nullptr ? folder + ("/" + path) : std::string(1, '\0') + path;
    Shared::demand(path.size() < sizeof to.sun_path, "the folder of the sockets has too long a name");
    std::memcpy(to.sun_path, path.data(), path.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    return to;
  }

  /// Every rank waits for those after it and calls those before it.
  void connect_all(const std::string& name, int size) {
    const auto start = Clock::now();
    socklen_t length = 0;
    const sockaddr_un own = address(name, rank_, length);
    const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    Shared::demand(bind(server, reinterpret_cast<const sockaddr*>(&own), length) == 0 && listen(server, 64) == 0,
                   "two ranks of a group have the same number");
    const auto wait_for = [&](const auto& done) {
      while (!done()) {
        Shared::demand(seconds_since(start) < shared_->limit, "the other ranks of a group did not connect");
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    };
    for (int peer = 0; peer < rank_; ++peer) {
      const int to = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_un theirs = address(name, peer, length);
      wait_for([&] { return connect(to, reinterpret_cast<const sockaddr*>(&theirs), length) == 0; });
      Shared::demand(write(to, &rank_, sizeof rank_) == sizeof rank_, "a rank of a group was lost at its start");
      peers_[static_cast<size_t>(peer)].socket = to;
    }
    for (int peer = rank_ + 1; peer < size; ++peer) {
      int from = -1, number = 0;
      wait_for([&] { return (from = accept4(server, nullptr, nullptr, SOCK_CLOEXEC)) >= 0; });
      Shared::demand(read(from, &number, sizeof number) == sizeof number, "a rank of a group was lost at its start");
      peers_[static_cast<size_t>(number)].socket = from;
    }
    close(server);
    if (own.sun_path[0] != 0) unlink(own.sun_path);
    for (const Peer& peer : peers_)
      if (peer.socket >= 0) fcntl(peer.socket, F_SETFL, O_NONBLOCK);
  }

  void failed(const std::string& why, bool lost = false) {
    const std::lock_guard lock(mutex_);
    if (aborted_) return;
    if (!has_failed_) failure_ = why, lost_ = lost;
    has_failed_ = true;
  }

  void demand_stream(DeviceStream& stream) {
    shared_->demand_thread();
    if (stream_ == nullptr) stream_ = &stream;
    Shared::demand(stream_ == &stream, "a second stream uses a group");
  }

  void issue(DeviceStream& stream, std::function<void()> work) {
    const int64_t call = shared_->calls++;
    if (call == shared_->faults.dies_at) kill(getpid(), SIGKILL);
    if (call == shared_->faults.fails_at) failed("an error that the test asked for");
    const bool hangs = call == shared_->faults.hangs_at;
    ++running_;
    static_cast<ApartStream&>(stream).issue([this, hangs, work = std::move(work)] {
      while (hangs && !aborted_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      work();
      --running_;
    });
  }

  // ---- on the stream's thread ----

  void run(const std::vector<Part>& parts) {
    std::vector<Transfer> transfers;
    for (const Part& part : parts) {
      Peer& peer = peers_[static_cast<size_t>(part.peer)];
      if (part.out.count() > 0) add(transfers, peer, true, shared_->device.inside(part.out));
      if (part.in.count() > 0) add(transfers, peer, false, shared_->device.inside(part.in));
    }
    move_all(transfers);
  }

  void move_all(std::vector<Transfer>& transfers) {
    while (!aborted_ && !move(transfers)) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  /// As far as it goes; whether all is done.
  bool move(std::vector<Transfer>& transfers) {
    for (bool moved = true; moved && !has_failed_;) {
      bool done = true;
      moved = false;
      for (Transfer& transfer : transfers) {
        if (has_failed_) break;
        moved = advance(transfer) || moved;
        done = done && transfer.done == transfer.total();
      }
      if (done && !has_failed_) return true;
    }
    return false;
  }

  static void add(std::vector<Transfer>& transfers, Peer& peer, bool out, View x, int64_t kind = 0) {
    int64_t& number = out ? peer.sent : peer.received;
    const Header header{static_cast<int64_t>(x.bytes()), static_cast<int64_t>(x.dtype()), number++, kind};
    transfers.push_back({&peer, out, header, {}, static_cast<std::byte*>(x.data())});
  }
  static std::string described(const Header& header) {
    constexpr const char* kKinds[] = {
        "a message", "a part of all_reduce", "a part of reduce_scatter", "a part of all_gather", "a part of broadcast",
        "a split"};
    return std::string(kKinds[header.kind]) + " of " + std::to_string(header.bytes) + " bytes of " +
           std::string(name_of(static_cast<DType>(header.dtype)));
  }

  static float value_of(ConstView x, int64_t i) {
    return x.dtype() == DType::f32    ? x.as<float>()[i]
           : x.dtype() == DType::bf16 ? to_float(x.as<bf16_t>()[i])
                                      : to_float(x.as<f16_t>()[i]);
  }
  static void set(View x, int64_t i, float value) {
    if (x.dtype() == DType::f32)
      x.as<float>()[i] = value;
    else if (x.dtype() == DType::bf16)
      x.as<bf16_t>()[i] = to_bf16(value);
    else
      x.as<f16_t>()[i] = to_f16(value);
  }

  void run_collective(DeviceCollective which, View in, View out, int root) {
    const auto ranks = static_cast<int64_t>(peers_.size());
    const bool gathers = which == DeviceCollective::all_gather, scatters = which == DeviceCollective::reduce_scatter;
    const int64_t part = scatters ? out.count() : in.count(), kind = 1 + static_cast<int64_t>(which);
    std::vector<std::byte> all(static_cast<size_t>(ranks) * static_cast<size_t>(part) * size_of(in.dtype()));
    const View parts(all.data(), in.dtype(), {ranks, part});
    std::vector<Transfer> transfers;
    for (int64_t r = 0; r < ranks; ++r) {
      const View own = scatters ? in.reshape({ranks, part}).rows_slice(r, 1) : in;
      if (r == rank_) {
        std::memcpy(parts.rows_slice(r, 1).data(), own.data(), own.bytes());
        continue;
      }
      if (which != DeviceCollective::broadcast || rank_ == root)
        add(transfers, peers_[static_cast<size_t>(r)], true, own, kind);
      if (which != DeviceCollective::broadcast || r == root)
        add(transfers, peers_[static_cast<size_t>(r)], false, parts.rows_slice(r, 1), kind);
    }
    move_all(transfers);
    if (gathers) {
      std::memcpy(out.data(), all.data(), all.size());
    } else if (which == DeviceCollective::broadcast) {
      std::memcpy(out.data(), parts.rows_slice(root, 1).data(), out.bytes());
    } else {
      for (int64_t i = 0; i < part; ++i) {
        const int64_t owner = scatters ? rank_ : i * ranks / part;
        set(out, i, 0);
        for (int64_t k = 1; k <= ranks; ++k)
          set(out, i, value_of(out, i) + value_of(parts, (owner + k) % ranks * part + i));
      }
    }
  }

  bool advance(Transfer& t) {
    if (t.done == t.total()) return false;
    const auto move = [&](std::byte* at, size_t bytes) -> size_t {
      const ssize_t n = t.out ? ::send(t.peer->socket, at, bytes, MSG_NOSIGNAL) : ::recv(t.peer->socket, at, bytes, 0);
      if (n > 0) return static_cast<size_t>(n);
      if (n == 0 || (errno != EAGAIN && errno != EINTR))
        failed("remote process exited or there was a network error", true);
      return 0;
    };
    const size_t before = t.done;
    if (t.done < sizeof(Header)) {
      auto* header = reinterpret_cast<std::byte*>(t.out ? &t.header : &t.arrived);
      t.done += move(header + t.done, sizeof(Header) - t.done);
      if (!t.out && t.done == sizeof(Header) && std::memcmp(&t.header, &t.arrived, sizeof(Header)) != 0)
        failed(described(t.arrived) + " arrived where " + described(t.header) + " was expected");
    }
    if (has_failed_ || t.done < sizeof(Header)) return t.done > before;
    if (const size_t left = t.total() - t.done; left > 0) t.done += move(t.data + (t.done - sizeof(Header)), left);
    if (!t.out && t.done == t.total() && t.header.kind != kSplit) {
      apart_faults.spoil("message", View(t.data, DType::u8, {t.header.bytes}));
      ++shared_->messages;
    }
    return t.done > before;
  }

  const std::shared_ptr<Shared> shared_;
  const int rank_;
  std::string name_;
  int splits_ = 0;
  std::vector<Peer> peers_;  ///< of the stream's thread once all are connected
  DeviceStream* stream_ = nullptr;
  std::mutex mutex_;
  std::string failure_;
  bool lost_ = false;
  std::atomic<bool> has_failed_ = false, aborted_ = false;
  std::atomic<int> running_ = 0;
};

class SocketNetwork final : public DeviceNetwork {
 public:
  explicit SocketNetwork(ApartDevice& device, const NetworkFaults& faults = {})
      : shared_(std::make_shared<SocketLinks::Shared>(device, faults)) {}
  std::string name() const override { return "sockets"; }
  Id make_id() override {
    shared_->demand_thread();
    Id id{};
    std::random_device random;
    for (size_t i = 0; i < 16; ++i) id[i] = static_cast<std::byte>(random());
    return id;
  }
  std::unique_ptr<DeviceLinks> connect(const Id& id, int rank, int size) override {
    shared_->demand_thread();
    std::string name = "trireme-";
    for (size_t i = 0; i < 16; ++i) name += "0123456789abcdef"[static_cast<unsigned>(id[i]) % 16];
    return std::make_unique<SocketLinks>(shared_, name, rank, size);
  }
  void check() override {
    // By the only thread that changes the list; the failure before the aborts that follow from it.
    for (SocketLinks* links : shared_->all)
      if (links->has_failed()) links->check();
    for (SocketLinks* links : shared_->all) links->check();
  }
  /// Calls of exchange() so far, and messages that have arrived.
  int64_t calls() const { return shared_->calls; }
  void set_faults(NetworkFaults faults) { shared_->faults = std::move(faults); }
  void set_limit(double seconds) { shared_->limit = seconds; }
  int64_t messages() const { return shared_->messages; }

  void abort_all() noexcept override {
    size_t groups = 0;
    {
      const std::lock_guard lock(shared_->mutex);
      for (SocketLinks* links : shared_->all) links->abort();
      groups = shared_->all.size();
    }
    if (shared_->faults.aborted) shared_->faults.aborted(groups);
  }

 private:
  std::shared_ptr<SocketLinks::Shared> shared_;
};

}  // namespace trireme
