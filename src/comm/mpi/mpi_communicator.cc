// Communicator over MPI's non-blocking calls. A call of more elements than an int counts is cut into several requests;
// if one array has the parts of several ranks, a resized type skips the elements of the other requests.

#include "comm/mpi/mpi_communicator.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "comm/check.h"
#include "comm/mpi.h"

namespace trireme::mpi {
namespace {

MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::i32:
      return MPI_INT32_T;
    case DType::i64:
      return MPI_INT64_T;
    case DType::i16:
      return MPI_INT16_T;
    case DType::u8:
      return MPI_UINT8_T;
    default:  // bf16, f16 and u16 are only moved
      return MPI_UINT16_T;
  }
}

MPI_Op operation_of(Reduction reduction) {
  return reduction == Reduction::sum ? MPI_SUM : reduction == Reduction::min ? MPI_MIN : MPI_MAX;
}

class Requests final : public Handle::Operation {
 public:
  explicit Requests(const char* call) : call_(call) {}
  MPI_Request* next() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  bool test() override {
    int done = 0;
    statuses_.resize(requests_.size());
    const int code = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses_.data());
    if (code == MPI_ERR_IN_STATUS) {
      for (const MPI_Status& status : statuses_) {
        if (status.MPI_ERROR != MPI_ERR_PENDING) check(status.MPI_ERROR, call_);
      }
    }
    check(code, call_);
    return done != 0;
  }

 private:
  const char* call_;
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;  ///< which request failed, and why
};

/// `count` elements, repeated every `stride` elements.
class StridedType {
 public:
  StridedType(MPI_Datatype element, int count, int64_t stride, size_t element_bytes) {
    MPI_Datatype contiguous = MPI_DATATYPE_NULL;
    check(MPI_Type_contiguous(count, element, &contiguous), "MPI_Type_contiguous");
    check(MPI_Type_create_resized(contiguous, 0, static_cast<MPI_Aint>(stride) * static_cast<MPI_Aint>(element_bytes),
                                  &type_),
          "MPI_Type_create_resized");
    MPI_Type_free(&contiguous);
    check(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  StridedType(const StridedType&) = delete;
  StridedType& operator=(const StridedType&) = delete;
  ~StridedType() { MPI_Type_free(&type_); }  // started requests keep what they need
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// MPI's non-blocking gather sends a message to each rank. Few bytes are gathered by a reduction instead, in as many
// messages as the number of ranks has digits.
constexpr int kManyRanks = 4;
constexpr size_t kFewBytes = 8 << 10;

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(MPI_Comm comm, int max_count) : comm_(comm), max_count_(max_count) {
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;
  ~MpiCommunicator() override {
    int finished = 0;
    MPI_Finalized(&finished);
    if (!finished) MPI_Comm_free(&comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string backend() const override { return library(); }

  Handle all_reduce(View x, Reduction reduction) override {
    comm_check::reducible("all_reduce", x);
    return in_parts("all_reduce", x.count(), [&](int64_t first, int n, MPI_Request* request) {
      return MPI_Iallreduce(MPI_IN_PLACE, at(x, first), n, type_of(x.dtype()), operation_of(reduction), comm_, request);
    });
  }

  Handle all_gather(ConstView x, View y) override {
    comm_check::parts("all_gather", x, y, size_);
    if (size_ >= kManyRanks && y.bytes() <= kFewBytes) return gather_by_reduction(x, y);
    const MPI_Datatype type = type_of(x.dtype());
    return in_parts("all_gather", x.count(), [&](int64_t first, int n, MPI_Request* request) {
      if (n == x.count()) return MPI_Iallgather(x.data(), n, type, y.data(), n, type, comm_, request);
      const StridedType strided(type, n, x.count(), size_of(x.dtype()));
      return MPI_Iallgather(at(x, first), n, type, at(y, first), 1, strided.get(), comm_, request);
    });
  }

  /// A sum of arrays that are zero except in their rank's place.
  Handle gather_by_reduction(ConstView x, View y) {
    auto* const bytes = static_cast<std::byte*>(y.data());
    std::memset(bytes, 0, y.bytes());
    if (x.bytes() > 0) std::memcpy(bytes + static_cast<size_t>(rank_) * x.bytes(), x.data(), x.bytes());
    return in_parts("all_gather", static_cast<int64_t>(y.bytes()), [&](int64_t first, int n, MPI_Request* request) {
      return MPI_Iallreduce(MPI_IN_PLACE, bytes + first, n, MPI_BYTE, MPI_BOR, comm_, request);
    });
  }

  Handle broadcast(View x, int root) override {
    comm_check::rank("broadcast", root, size_);
    return in_parts("broadcast", x.count(), [&](int64_t first, int n, MPI_Request* request) {
      return MPI_Ibcast(at(x, first), n, type_of(x.dtype()), root, comm_, request);
    });
  }

  Handle send(ConstView x, int to, int tag) override {
    comm_check::rank("send", to, size_);
    comm_check::tag("send", tag);
    return in_parts("send", x.count(), [&](int64_t first, int n, MPI_Request* request) {
      return MPI_Isend(at(x, first), n, type_of(x.dtype()), to, tag, comm_, request);
    });
  }

  Handle receive(View x, int from, int tag) override {
    comm_check::rank("receive", from, size_);
    comm_check::tag("receive", tag);
    return in_parts("receive", x.count(), [&](int64_t first, int n, MPI_Request* request) {
      return MPI_Irecv(at(x, first), n, type_of(x.dtype()), from, tag, comm_, request);
    });
  }

  Handle barrier() override {
    auto requests = std::make_unique<Requests>("barrier");
    check(MPI_Ibarrier(comm_, requests->next()), "barrier");
    return Handle(std::move(requests));
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    MPI_Comm part = MPI_COMM_NULL;
    check(MPI_Comm_split(comm_, color, key, &part), "MPI_Comm_split");
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

  MPI_Comm comm_;
  int max_count_, rank_ = 0, size_ = 1;
};

}  // namespace

std::unique_ptr<Communicator> make_communicator(MPI_Comm comm, int max_count) {
  return std::make_unique<MpiCommunicator>(comm, max_count);
}

}  // namespace trireme::mpi
