// The adapter of one MPI library's ABI: see adapter.h. Compiled once for each of them.
#include "comm/mpi/adapter.h"

#include <mpi.h>

#include <cstring>
#include <vector>

namespace trireme::mpi {
namespace {

template <class T>
T from(Object object) {
  static_assert(sizeof(T) <= sizeof object);  // NOLINT(bugprone-sizeof-expression): the handle itself
  T value;
  std::memcpy(&value, &object, sizeof value);  // NOLINT(bugprone-sizeof-expression)
  return value;
}
template <class T>
Object to(T value) {
  Object object = 0;
  std::memcpy(&object, &value, sizeof value);  // NOLINT(bugprone-sizeof-expression)
  return object;
}

MPI_Comm comm_of(Object comm) { return from<MPI_Comm>(comm); }
MPI_Op op_of(Object op) { return from<MPI_Op>(op); }

MPI_Datatype type_of(Type type) {
  switch (type) {
    case Type::i8:
      return MPI_INT8_T;
    case Type::u8:
      return MPI_UINT8_T;
    case Type::i16:
      return MPI_INT16_T;
    case Type::u16:
      return MPI_UINT16_T;
    case Type::i32:
      return MPI_INT32_T;
    case Type::u32:
      return MPI_UINT32_T;
    case Type::i64:
      return MPI_INT64_T;
    case Type::u64:
      return MPI_UINT64_T;
    case Type::f32:
      return MPI_FLOAT;
    case Type::f64:
      return MPI_DOUBLE;
  }
  return MPI_DATATYPE_NULL;
}

Object known_op(Op op) {
  switch (op) {
    case Op::sum:
      return to<MPI_Op>(MPI_SUM);
    case Op::product:
      return to<MPI_Op>(MPI_PROD);
    case Op::min:
      return to<MPI_Op>(MPI_MIN);
    case Op::max:
      return to<MPI_Op>(MPI_MAX);
    case Op::bit_or:
      return to<MPI_Op>(MPI_BOR);
  }
  return 0;
}

int start(int* thread_level) {
  int given = MPI_THREAD_SINGLE;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &given);
  if (code != MPI_SUCCESS) return code;
  *thread_level = given == MPI_THREAD_SINGLE       ? 0
                  : given == MPI_THREAD_FUNNELED   ? 1
                  : given == MPI_THREAD_SERIALIZED ? 2
                                                   : 3;
  return MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

int finished() {
  int done = 0;
  MPI_Finalized(&done);
  return done;
}

void library(char* text, int capacity) {
  char whole[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  if (MPI_Get_library_version(whole, &length) != MPI_SUCCESS) std::strcpy(whole, "unknown MPI");
  std::strncpy(text, whole, static_cast<size_t>(capacity) - 1);
  text[capacity - 1] = '\0';
}

void reason(int code, char* text, int capacity) {
  char whole[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, whole, &length);
  std::strncpy(text, whole, static_cast<size_t>(capacity) - 1);
  text[capacity - 1] = '\0';
}

/// A new communicator, if the call that made it succeeded.
int keep(int code, MPI_Comm made, Object* out) {
  if (code != MPI_SUCCESS) return code;
  *out = to(made);
  return MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
}

int world(Object* copy) {
  MPI_Comm made = MPI_COMM_NULL;
  const int code = MPI_Comm_dup(MPI_COMM_WORLD, &made);
  return keep(code, made, copy);
}

int host_group(Object* group) {
  int rank = 0;
  MPI_Comm made = MPI_COMM_NULL;
  int code = MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (code == MPI_SUCCESS) code = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &made);
  return keep(code, made, group);
}

int split(Object comm, int color, int key, Object* part) {
  MPI_Comm made = MPI_COMM_NULL;
  const int code = MPI_Comm_split(comm_of(comm), color, key, &made);
  return keep(code, made, part);
}

int place(Object comm, int* rank, int* size) {
  const int code = MPI_Comm_rank(comm_of(comm), rank);
  return code == MPI_SUCCESS ? MPI_Comm_size(comm_of(comm), size) : code;
}

void release(Object comm) {
  MPI_Comm own = comm_of(comm);
  MPI_Comm_free(&own);
}

/// begin(&request), whose request is kept in *out.
template <class Begin>
int begun(Object* out, Begin begin) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = begin(&request);
  *out = to(request);
  return code;
}

int all_reduce(void* x, int n, Type type, Op op, Object comm, Object* request) {
  return begun(request, [&](MPI_Request* own) {
    return MPI_Iallreduce(MPI_IN_PLACE, x, n, type_of(type), op_of(known_op(op)), comm_of(comm), own);
  });
}

/// Gathers parts that are not beside each other: a type of n elements that is repeated every `stride`.
int gather_apart(const void* x, int n, void* y, int64_t stride, MPI_Datatype type, MPI_Comm comm,
                 MPI_Request* request) {
  MPI_Datatype contiguous = MPI_DATATYPE_NULL, part = MPI_DATATYPE_NULL;
  int bytes = 0;
  int code = MPI_Type_size(type, &bytes);
  if (code == MPI_SUCCESS) code = MPI_Type_contiguous(n, type, &contiguous);
  if (code != MPI_SUCCESS) return code;
  code = MPI_Type_create_resized(contiguous, 0, static_cast<MPI_Aint>(stride) * bytes, &part);
  MPI_Type_free(&contiguous);
  if (code != MPI_SUCCESS) return code;
  code = MPI_Type_commit(&part);
  if (code == MPI_SUCCESS) code = MPI_Iallgather(x, n, type, y, 1, part, comm, request);
  MPI_Type_free(&part);  // the request that has begun keeps what it needs
  return code;
}

int all_gather(const void* x, int n, void* y, int64_t stride, Type type, Object comm, Object* request) {
  const MPI_Datatype element = type_of(type);
  return begun(request, [&](MPI_Request* own) {
    return stride == n ? MPI_Iallgather(x, n, element, y, n, element, comm_of(comm), own)
                       : gather_apart(x, n, y, stride, element, comm_of(comm), own);
  });
}

int broadcast(void* x, int n, Type type, int root, Object comm, Object* request) {
  return begun(request, [&](MPI_Request* own) { return MPI_Ibcast(x, n, type_of(type), root, comm_of(comm), own); });
}

int send(const void* x, int n, Type type, int to_rank, int tag, Object comm, Object* request) {
  return begun(request,
               [&](MPI_Request* own) { return MPI_Isend(x, n, type_of(type), to_rank, tag, comm_of(comm), own); });
}

int receive(void* x, int n, Type type, int from_rank, int tag, Object comm, Object* request) {
  return begun(request,
               [&](MPI_Request* own) { return MPI_Irecv(x, n, type_of(type), from_rank, tag, comm_of(comm), own); });
}

int barrier(Object comm, Object* request) {
  return begun(request, [&](MPI_Request* own) { return MPI_Ibarrier(comm_of(comm), own); });
}

int test_all(int count, Object* requests, int* done) {
  std::vector<MPI_Request> own;
  for (int i = 0; i < count; ++i) own.push_back(from<MPI_Request>(requests[i]));
  std::vector<MPI_Status> statuses(own.size());
  const int code = MPI_Testall(count, own.data(), done, statuses.data());
  for (int i = 0; i < count; ++i) requests[i] = to(own[static_cast<size_t>(i)]);
  if (code != MPI_ERR_IN_STATUS) return code;
  for (const MPI_Status& status : statuses) {
    if (status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING) return status.MPI_ERROR;
  }
  return code;
}

int make_op(Combine combine, Object* op) {
  MPI_Op made = MPI_OP_NULL;
  const int code = MPI_Op_create(reinterpret_cast<MPI_User_function*>(combine), 1, &made);
  *op = to(made);
  return code;
}

void release_op(Object op) {
  MPI_Op own = op_of(op);
  MPI_Op_free(&own);
}

constexpr const char* kAbi = TRIREME_MPI_ABI;

const Adapter kAdapter = {
    .abi = kAbi,
    .in_place = MPI_IN_PLACE,
    .start = start,
    .finish = [] { return MPI_Finalize(); },
    .finished = finished,
    .abort = [](int code) { MPI_Abort(MPI_COMM_WORLD, code); },
    .library = library,
    .reason = reason,
    .world = world,
    .host_group = host_group,
    .split = split,
    .place = place,
    .release = release,
    .all_reduce = all_reduce,
    .all_gather = all_gather,
    .broadcast = broadcast,
    .send = send,
    .receive = receive,
    .barrier = barrier,
    .test_all = test_all,
    .make_op = make_op,
    .release_op = release_op,
    .known_op = known_op,
    .Allreduce = [](const void* x, void* y, int n, Type type, Object op,
                    Object comm) { return MPI_Allreduce(x, y, n, type_of(type), op_of(op), comm_of(comm)); },
    .Bcast = [](void* x, int n, Type type, int root,
                Object comm) { return MPI_Bcast(x, n, type_of(type), root, comm_of(comm)); },
    .Reduce = [](const void* x, void* y, int n, Type type, Object op, int root,
                 Object comm) { return MPI_Reduce(x, y, n, type_of(type), op_of(op), root, comm_of(comm)); },
    .Sendrecv =
        [](const void* x, int to_rank, void* y, int from_rank, int n, Type type, Object comm) {
          return MPI_Sendrecv(x, n, type_of(type), to_rank, 0, y, n, type_of(type), from_rank, 0, comm_of(comm),
                              MPI_STATUS_IGNORE);
        },
    .Sendrecv_replace =
        [](void* x, int to_rank, int from_rank, int n, Type type, Object comm) {
          return MPI_Sendrecv_replace(x, n, type_of(type), to_rank, 0, from_rank, 0, comm_of(comm), MPI_STATUS_IGNORE);
        },
    .Allgather = [](const void* x, void* y, int n, Type type,
                    Object comm) { return MPI_Allgather(x, n, type_of(type), y, n, type_of(type), comm_of(comm)); },
    .Reduce_scatter_block =
        [](const void* x, void* y, int n, Type type, Object op, Object comm) {
          return MPI_Reduce_scatter_block(x, y, n, type_of(type), op_of(op), comm_of(comm));
        },
    .Alltoall = [](const void* x, void* y, int n, Type type,
                   Object comm) { return MPI_Alltoall(x, n, type_of(type), y, n, type_of(type), comm_of(comm)); },
    .Gather = [](const void* x, void* y, int n, Type type, int root,
                 Object comm) { return MPI_Gather(x, n, type_of(type), y, n, type_of(type), root, comm_of(comm)); },
    .Scatter = [](const void* x, void* y, int n, Type type, int root,
                  Object comm) { return MPI_Scatter(x, n, type_of(type), y, n, type_of(type), root, comm_of(comm)); },
};

}  // namespace
}  // namespace trireme::mpi

extern "C" __attribute__((visibility("default"))) const trireme::mpi::Adapter* trireme_mpi_adapter() {
  return &trireme::mpi::kAdapter;
}
