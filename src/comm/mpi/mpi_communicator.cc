// Communicator over MPI's non-blocking calls. A call of more elements than an int counts is cut into several requests;
// if one array has the parts of several ranks, those of a request are a stride apart.

#include "comm/mpi/mpi_communicator.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "comm/check.h"
#include "comm/mpi.h"
#include "comm/mpi/library.h"

namespace trireme::mpi {
namespace {

Type type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return Type::f32;
    case DType::f64:
      return Type::f64;
    case DType::i32:
      return Type::i32;
    case DType::i64:
      return Type::i64;
    case DType::i16:
      return Type::i16;
    case DType::u8:
      return Type::u8;
    default:  // bf16, f16 and u16 are only moved
      return Type::u16;
  }
}

Op operation_of(Reduction reduction) {
  return reduction == Reduction::sum ? Op::sum : reduction == Reduction::min ? Op::min : Op::max;
}

class Requests final : public Handle::Operation {
 public:
  explicit Requests(const char* call) : call_(call) {}
  Object* next() { return &requests_.emplace_back(0); }
  bool test() override {
    int done = 0;
    check(adapter().test_all(static_cast<int>(requests_.size()), requests_.data(), &done), call_);
    return done != 0;
  }

 private:
  const char* call_;
  std::vector<Object> requests_;
};

// MPI's non-blocking gather sends a message to each rank. Few bytes are gathered by a reduction instead, in as many
// messages as the number of ranks has digits.
constexpr int kManyRanks = 4;
constexpr size_t kFewBytes = 8 << 10;

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(Object comm, int max_count) : comm_(comm), max_count_(max_count) {
    check(adapter().place(comm_, &rank_, &size_), "MPI_Comm_rank");
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;
  ~MpiCommunicator() override {
    if (!adapter().finished()) adapter().release(comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string backend() const override { return library(); }

  Handle all_reduce(View x, Reduction reduction) override {
    comm_check::reducible("all_reduce", x);
    return in_parts("all_reduce", x.count(), [&](int64_t first, int n, Object* request) {
      return adapter().all_reduce(at(x, first), n, type_of(x.dtype()), operation_of(reduction), comm_, request);
    });
  }

  Handle all_gather(ConstView x, View y) override {
    comm_check::parts("all_gather", x, y, size_);
    if (size_ >= kManyRanks && y.bytes() <= kFewBytes) return gather_by_reduction(x, y);
    return in_parts("all_gather", x.count(), [&](int64_t first, int n, Object* request) {
      return adapter().all_gather(at(x, first), n, at(y, first), x.count(), type_of(x.dtype()), comm_, request);
    });
  }

  /// A sum of arrays that are zero except in their rank's place.
  Handle gather_by_reduction(ConstView x, View y) {
    auto* const bytes = static_cast<std::byte*>(y.data());
    std::memset(bytes, 0, y.bytes());
    if (x.bytes() > 0) std::memcpy(bytes + static_cast<size_t>(rank_) * x.bytes(), x.data(), x.bytes());
    return in_parts("all_gather", static_cast<int64_t>(y.bytes()), [&](int64_t first, int n, Object* request) {
      return adapter().all_reduce(bytes + first, n, Type::u8, Op::bit_or, comm_, request);
    });
  }

  Handle broadcast(View x, int root) override {
    comm_check::rank("broadcast", root, size_);
    return in_parts("broadcast", x.count(), [&](int64_t first, int n, Object* request) {
      return adapter().broadcast(at(x, first), n, type_of(x.dtype()), root, comm_, request);
    });
  }

  Handle send(ConstView x, int to, int tag) override {
    comm_check::rank("send", to, size_);
    comm_check::tag("send", tag);
    return in_parts("send", x.count(), [&](int64_t first, int n, Object* request) {
      return adapter().send(at(x, first), n, type_of(x.dtype()), to, tag, comm_, request);
    });
  }

  Handle receive(View x, int from, int tag) override {
    comm_check::rank("receive", from, size_);
    comm_check::tag("receive", tag);
    return in_parts("receive", x.count(), [&](int64_t first, int n, Object* request) {
      return adapter().receive(at(x, first), n, type_of(x.dtype()), from, tag, comm_, request);
    });
  }

  Handle barrier() override {
    auto requests = std::make_unique<Requests>("barrier");
    check(adapter().barrier(comm_, requests->next()), "barrier");
    return Handle(std::move(requests));
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    Object part = 0;
    check(adapter().split(comm_, color, key, &part), "MPI_Comm_split");
    return make_communicator(part, max_count_);
  }

 private:
  static const void* at(ConstView x, int64_t first) {
    return static_cast<const char*>(x.data()) + static_cast<size_t>(first) * size_of(x.dtype());
  }
  static void* at(View x, int64_t first) {
    return static_cast<char*>(x.data()) + static_cast<size_t>(first) * size_of(x.dtype());
  }

  /// One request per part of at most max_count_ elements. An empty call still makes one request, because collectives
  /// count calls.
  template <class Start>
  Handle in_parts(const char* call, int64_t count, Start start) {
    auto requests = std::make_unique<Requests>(call);
    int64_t first = 0;
    do {
      const int n = static_cast<int>(std::min<int64_t>(count - first, max_count_));
      check(start(first, n, requests->next()), call);
      first += n;
    } while (first < count);
    return Handle(std::move(requests));
  }

  Object comm_;
  int max_count_, rank_ = 0, size_ = 1;
};

}  // namespace

std::unique_ptr<Communicator> make_communicator(Object comm, int max_count) {
  return std::make_unique<MpiCommunicator>(comm, max_count);
}

}  // namespace trireme::mpi
