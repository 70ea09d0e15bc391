#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string_view>

#include "base/error.h"
#include "comm/collectives.h"
#include "comm/half.h"
#include "comm/mpi.h"
#include "comm/mpi/library.h"
#include "comm/mpi/mpi_communicator.h"
#include "tensor/dtype.h"

namespace trireme::mpi {
namespace {

Type type_of(Element element) {
  switch (element) {
    case Element::i8:
      return Type::i8;
    case Element::u8:
      return Type::u8;
    case Element::i32:
      return Type::i32;
    case Element::u32:
      return Type::u32;
    case Element::i64:
      return Type::i64;
    case Element::u64:
      return Type::u64;
    case Element::f32:
      return Type::f32;
    case Element::f64:
      return Type::f64;
    default:
      return Type::u16;  // MPI has neither f16 nor bf16; Trireme defines their reductions
  }
}

void narrow(float x, bf16_t& y) { y = to_bf16(x); }
void narrow(float x, half_t& y) { y = to_half(x); }

template <class T, class Op>
void combine(void* in, void* inout, int* length, void*) {
  const T* x = static_cast<const T*>(in);
  T* y = static_cast<T*>(inout);
  for (int i = 0; i < *length; ++i) narrow(Op()(to_float(x[i]), to_float(y[i])), y[i]);
}

struct Least {
  float operator()(float a, float b) const { return std::min(a, b); }
};
struct Greatest {
  float operator()(float a, float b) const { return std::max(a, b); }
};

/// Sum, product, minimum and maximum of a type that MPI does not reduce.
template <class T>
class SmallFloatOps {
 public:
  SmallFloatOps() {
    const std::array<Combine, 4> functions = {combine<T, std::plus<>>, combine<T, std::multiplies<>>, combine<T, Least>,
                                              combine<T, Greatest>};
    for (size_t i = 0; i < ops_.size(); ++i) check(adapter().make_op(functions[i], &ops_[i]), "MPI_Op_create");
  }
  SmallFloatOps(const SmallFloatOps&) = delete;
  SmallFloatOps& operator=(const SmallFloatOps&) = delete;
  ~SmallFloatOps() {
    if (adapter().finished()) return;
    for (const Object op : ops_) adapter().release_op(op);
  }
  Object get(ReduceOp op) const { return ops_[static_cast<size_t>(op == ReduceOp::avg ? ReduceOp::sum : op)]; }

 private:
  std::array<Object, 4> ops_{};
};

template <class T>
void divide(void* values, int64_t count, int ranks) {
  T* x = static_cast<T*>(values);
  for (int64_t i = 0; i < count; ++i) x[i] = static_cast<T>(x[i] / static_cast<T>(ranks));
}

template <class T>
void divide_small(void* values, int64_t count, int ranks) {
  T* x = static_cast<T*>(values);
  for (int64_t i = 0; i < count; ++i) narrow(to_float(x[i]) / static_cast<float>(ranks), x[i]);
}

void divide(Element element, void* values, int64_t count, int ranks) {
  switch (element) {
    case Element::i8:
      return divide<int8_t>(values, count, ranks);
    case Element::u8:
      return divide<uint8_t>(values, count, ranks);
    case Element::i32:
      return divide<int32_t>(values, count, ranks);
    case Element::u32:
      return divide<uint32_t>(values, count, ranks);
    case Element::i64:
      return divide<int64_t>(values, count, ranks);
    case Element::u64:
      return divide<uint64_t>(values, count, ranks);
    case Element::f32:
      return divide<float>(values, count, ranks);
    case Element::f64:
      return divide<double>(values, count, ranks);
    case Element::f16:
      return divide_small<half_t>(values, count, ranks);
    case Element::bf16:
      return divide_small<bf16_t>(values, count, ranks);
  }
}

class MpiCollectives final : public Collectives {
 public:
  MpiCollectives() {
    check(adapter().world(&comm_), "MPI_Comm_dup");
    check(adapter().place(comm_, &rank_, &size_), "MPI_Comm_rank");
  }
  ~MpiCollectives() override {
    if (!adapter().finished()) adapter().release(comm_);
  }
  MpiCollectives(const MpiCollectives&) = delete;
  MpiCollectives& operator=(const MpiCollectives&) = delete;

  void run(const CollectiveCall& call, void* send, void* receive) override {
    switch (call.collective) {
      case Collective::all_reduce:
      case Collective::broadcast:
      case Collective::reduce:
      case Collective::send_receive:
        return run_in_pieces(call, static_cast<char*>(send), static_cast<char*>(receive));
      default:
        return run_in_parts(call, send, receive);
    }
  }

 private:
  Object operation(const CollectiveCall& call) const {
    if (call.element == Element::bf16) return bf16_.get(call.op);
    if (call.element == Element::f16) return f16_.get(call.op);
    constexpr std::array kOps = {Op::sum, Op::product, Op::min, Op::max, Op::sum};
    return adapter().known_op(kOps[static_cast<size_t>(call.op)]);
  }

  void finish(const CollectiveCall& call, void* result, int64_t count) const {
    if (call.op == ReduceOp::avg) divide(call.element, result, count, size_);
  }

  /// Elements are independent: splits into calls whose counts fit an int.
  void run_in_pieces(const CollectiveCall& call, char* send, char* receive) const {
    const auto width = static_cast<int64_t>(size_of(call.element));
    int64_t first = 0;
    do {
      const int n = static_cast<int>(std::min<int64_t>(call.count - first, kMaxCount));
      char *const in = send + first * width, *const out = receive + first * width;
      run_piece(call, n, call.in_place ? out : in, out, in);
      first += n;
    } while (first < call.count);
  }

  /// `spare`: room for n elements when `from` is `to`.
  void run_piece(const CollectiveCall& call, int n, char* from, char* to, char* spare) const {
    const Type type = type_of(call.element);
    const bool is_root = rank_ == call.root;
    const void* input = call.in_place ? adapter().in_place : from;
    const int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
    switch (call.collective) {
      case Collective::all_reduce:
        check(adapter().Allreduce(input, to, n, type, operation(call), comm_), "MPI_Allreduce");
        return finish(call, to, n);
      case Collective::broadcast:
        if (is_root && !call.in_place) std::memcpy(to, from, static_cast<size_t>(n) * size_of(call.element));
        return check(adapter().Bcast(to, n, type, call.root, comm_), "MPI_Bcast");
      case Collective::reduce:
        // MPICH's issue 6540, corrected in 4.1.2: a root other than 0 reads MPI_IN_PLACE as an address.
        if (is_root && call.in_place && call.root != 0 && is_mpich_) {
          std::memcpy(spare, to, static_cast<size_t>(n) * size_of(call.element));
          input = spare;
        }
        check(adapter().Reduce(is_root ? input : from, is_root ? to : nullptr, n, type, operation(call), call.root,
                               comm_),
              "MPI_Reduce");
        if (is_root) finish(call, to, n);
        return;
      default:
        if (call.in_place) {
          return check(adapter().Sendrecv_replace(to, next, before, n, type, comm_), "MPI_Sendrecv_replace");
        }
        check(adapter().Sendrecv(from, next, to, before, n, type, comm_), "MPI_Sendrecv");
    }
  }

  void run_in_parts(const CollectiveCall& call, void* send, void* receive) const {
    require(call.count <= kMaxCount, ErrorKind::usage,
            "{} elements per rank exceed the limit of one MPI call ({}); lower -e", call.count, kMaxCount);
    const Type type = type_of(call.element);
    const int n = static_cast<int>(call.count);
    const void* input = call.in_place ? adapter().in_place : send;
    const bool is_root = rank_ == call.root;
    switch (call.collective) {
      case Collective::all_gather:
        return check(adapter().Allgather(input, receive, n, type, comm_), "MPI_Allgather");
      case Collective::reduce_scatter:
        check(adapter().Reduce_scatter_block(input, receive, n, type, operation(call), comm_),
              "MPI_Reduce_scatter_block");
        return finish(call, receive, n);
      case Collective::all_to_all:
        return check(adapter().Alltoall(input, receive, n, type, comm_), "MPI_Alltoall");
      case Collective::gather:
        return check(adapter().Gather(is_root         ? input
                                      : call.in_place ? part(receive, call)
                                                      : send,
                                      is_root ? receive : nullptr, n, type, call.root, comm_),
                     "MPI_Gather");
      default:  // scatter; in place the root sends from `receive`
        return check(adapter().Scatter(call.in_place ? receive : send,
                                       is_root && call.in_place ? const_cast<void*>(adapter().in_place) : receive, n,
                                       type, call.root, comm_),
                     "MPI_Scatter");
    }
  }

  void* part(void* whole, const CollectiveCall& call) const {
    return static_cast<char*>(whole) + static_cast<size_t>(rank_ * call.count) * size_of(call.element);
  }

  Object comm_ = 0;
  int rank_ = 0, size_ = 1;
  const bool is_mpich_ = std::string_view(adapter().abi) != "openmpi";
  SmallFloatOps<bf16_t> bf16_;
  SmallFloatOps<half_t> f16_;
};

}  // namespace
}  // namespace trireme::mpi

namespace trireme {

std::unique_ptr<Collectives> make_mpi_collectives() { return std::make_unique<mpi::MpiCollectives>(); }

}  // namespace trireme
