#pragma once
// NCCL's functions, found at run time. They are declared here, as nccl.h declares them from version 2.18 on, because
// CUDA's toolkits have no nccl.h.

#include <array>
#include <climits>
#include <cstddef>
#include <string>

struct ncclComm;
struct CUstream_st;

namespace trireme::nccl {

enum Result : int { kSuccess = 0, kSystemError = 2, kRemoteError = 6, kInProgress = 7 };
constexpr int kBytes = 0;     ///< ncclInt8: messages are bytes
constexpr int kNoColor = -1;  ///< NCCL_SPLIT_NOCOLOR
constexpr int kHalf = 6, kFloat = 7, kBfloat16 = 9, kSum = 0;

struct UniqueId {
  std::array<std::byte, 128> bytes;
};

/// ncclConfig_t of version 2.18, which later ones take, too. What is not set is NCCL's choice.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef, version = 21800;
  int blocking = 0;
  int cluster_size = INT_MIN, least_blocks = INT_MIN, most_blocks = INT_MIN;
  const char* network = nullptr;
  int shares_on_split = INT_MIN, not_used = INT_MIN;
};

struct Library {
  Result (*version)(int*) = nullptr;
  const char* (*error_text)(Result) = nullptr;
  const char* (*last_error)(ncclComm*) = nullptr;
  Result (*make_id)(UniqueId*) = nullptr;
  Result (*connect)(ncclComm**, int ranks, UniqueId, int rank, Config*) = nullptr;
  Result (*split)(ncclComm*, int color, int key, ncclComm**, Config*) = nullptr;
  Result (*state)(ncclComm*, Result*) = nullptr;
  Result (*finalize)(ncclComm*) = nullptr;
  Result (*destroy)(ncclComm*) = nullptr;
  Result (*abort)(ncclComm*) = nullptr;
  Result (*begin_group)() = nullptr;
  Result (*end_group)() = nullptr;
  Result (*issue_send)(const void*, size_t count, int type, int peer, ncclComm*, CUstream_st*) = nullptr;
  Result (*issue_receive)(void*, size_t count, int type, int peer, ncclComm*, CUstream_st*) = nullptr;
  Result (*issue_all_reduce)(const void*, void*, size_t count, int type, int op, ncclComm*, CUstream_st*) = nullptr;
  Result (*issue_reduce_scatter)(const void*, void*, size_t out, int type, int op, ncclComm*, CUstream_st*) = nullptr;
  Result (*issue_all_gather)(const void*, void*, size_t in, int type, ncclComm*, CUstream_st*) = nullptr;
  Result (*issue_broadcast)(const void*, void*, size_t count, int type, int root, ncclComm*, CUstream_st*) = nullptr;
  int number = 0;  ///< of the version: 22809
};

/// The functions of an opened libnccl.so.2. Throws Error::usage if it lacks one of them or is older than 2.18.
Library load(void* opened);

/// "2.28.9" of 22809
std::string version_text(int number);

}  // namespace trireme::nccl
