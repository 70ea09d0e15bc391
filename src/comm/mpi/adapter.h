#pragma once
// What the program calls of an MPI library: a table of functions and values, so that the program is linked with none.
// Each ABI has its adapter, a shared library of adapter.cc compiled with that library's <mpi.h>, linked with
// nothing and contained in the program, which opens the MPI library first, then the adapter, which finds MPI's
// functions in it. Plain values only; nothing is thrown across.

#include <cstdint>

namespace trireme::mpi {

/// A communicator, request or operation of the library: a pointer or an int.
using Object = std::uintptr_t;

enum class Type : int { i8, u8, i16, u16, i32, u32, i64, u64, f32, f64 };
enum class Op : int { sum, product, min, max, bit_or };

/// As MPI_User_function.
using Combine = void (*)(void* in, void* inout, int* length, void* type);

/// Functions return MPI's code, 0 for success, unless they return something else.
struct Adapter {
  const char* abi;       ///< "openmpi", "mpich" or "abi"
  const void* in_place;  ///< MPI_IN_PLACE

  // Functions of the process.
  int (*start)(int* thread_level);  ///< MPI_Init_thread for several threads; 0 single to 3 multiple
  int (*finish)();
  int (*finished)();  ///< whether finish() has been called
  void (*abort)(int code);
  void (*library)(char* text, int capacity);
  void (*reason)(int code, char* text, int capacity);  ///< of a code of the other functions

  // Functions of communicators, whose errors are returned.
  int (*world)(Object* copy);
  int (*host_group)(Object* group);
  int (*split)(Object comm, int color, int key, Object* part);
  int (*place)(Object comm, int* rank, int* size);
  void (*release)(Object comm);

  // Calls that begin.
  int (*all_reduce)(void* x, int n, Type type, Op op, Object comm, Object* request);
  /// y: the parts of all ranks, each `stride` elements after the one before.
  int (*all_gather)(const void* x, int n, void* y, int64_t stride, Type type, Object comm, Object* request);
  int (*broadcast)(void* x, int n, Type type, int root, Object comm, Object* request);
  int (*send)(const void* x, int n, Type type, int to, int tag, Object comm, Object* request);
  int (*receive)(void* x, int n, Type type, int from, int tag, Object comm, Object* request);
  int (*barrier)(Object comm, Object* request);
  /// Whether all have ended; the code of the first that failed.
  int (*test_all)(int count, Object* requests, int* done);

  // Calls that wait, as MPI's of these names.
  int (*make_op)(Combine combine, Object* op);
  void (*release_op)(Object op);
  Object (*known_op)(Op op);
  int (*Allreduce)(const void* x, void* y, int n, Type type, Object op, Object comm);
  int (*Bcast)(void* x, int n, Type type, int root, Object comm);
  int (*Reduce)(const void* x, void* y, int n, Type type, Object op, int root, Object comm);
  int (*Sendrecv)(const void* x, int to, void* y, int from, int n, Type type, Object comm);
  int (*Sendrecv_replace)(void* x, int to, int from, int n, Type type, Object comm);
  int (*Allgather)(const void* x, void* y, int n, Type type, Object comm);
  int (*Reduce_scatter_block)(const void* x, void* y, int n, Type type, Object op, Object comm);
  int (*Alltoall)(const void* x, void* y, int n, Type type, Object comm);
  int (*Gather)(const void* x, void* y, int n, Type type, int root, Object comm);
  int (*Scatter)(const void* x, void* y, int n, Type type, int root, Object comm);
};

/// The function of an adapter that gives its table.
using GetAdapter = const Adapter*();
inline constexpr const char* kGetAdapter = "trireme_mpi_adapter";

}  // namespace trireme::mpi
