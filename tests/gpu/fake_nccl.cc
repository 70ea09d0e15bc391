// In place of libnccl.so.2: writes down its calls and answers as the test wants.

#include <mutex>
#include <string>

#include "cuda/nccl_library.h"

using namespace trireme::nccl;

extern "C" {

// What the test reads and sets.
extern std::string fake_calls, fake_last_error;
extern int fake_version, fake_polls;
extern Result fake_state;
std::string fake_calls, fake_last_error;
int fake_version = 22809, fake_polls = 0;  ///< that many times a call is still in progress
Result fake_state = kSuccess;

static Result noted(const std::string& call) {
  static std::mutex mutex;  // several groups may be aborted at once
  const std::lock_guard lock(mutex);
  fake_calls += call + "\n";
  return fake_polls > 0 ? kInProgress : kSuccess;
}

Result ncclGetVersion(int* version) {
  *version = fake_version;
  return kSuccess;
}
const char* ncclGetErrorString(Result result) { return result == 6 ? "remote process exited" : "some error"; }
const char* ncclGetLastError(ncclComm*) { return fake_last_error.c_str(); }
Result ncclGetUniqueId(UniqueId* id) {
  id->bytes.fill(std::byte{7});
  return kSuccess;
}
Result ncclCommInitRankConfig(ncclComm** comm, int ranks, UniqueId id, int rank, Config* config) {
  *comm = reinterpret_cast<ncclComm*>(&fake_calls);
  return noted("connect " + std::to_string(ranks) + " " + std::to_string(rank) + " id " +
               std::to_string(static_cast<int>(id.bytes[127])) + " blocking " + std::to_string(config->blocking) +
               " blocks " + std::to_string(config->most_blocks));
}
Result ncclCommGetAsyncError(ncclComm*, Result* result) {
  *result = fake_polls > 0 ? kInProgress : fake_state;
  if (fake_polls > 0) --fake_polls;
  return kSuccess;
}
Result ncclCommFinalize(ncclComm*) { return noted("finalize"); }
Result ncclCommDestroy(ncclComm*) { return noted("destroy"); }
Result ncclCommAbort(ncclComm*) { return noted("abort"); }
Result ncclGroupStart() {
  fake_calls += "begin\n";
  return kSuccess;
}
Result ncclGroupEnd() { return noted("end"); }
Result ncclSend(const void*, size_t count, int type, int peer, ncclComm*, CUstream_st*) {
  return noted("send " + std::to_string(count) + " of type " + std::to_string(type) + " to " + std::to_string(peer));
}
Result ncclRecv(void*, size_t count, int, int peer, ncclComm*, CUstream_st*) {
  return noted("receive " + std::to_string(count) + " from " + std::to_string(peer));
}
Result ncclAllReduce(const void*, void*, size_t count, int type, int op, ncclComm*, CUstream_st*) {
  return noted("all_reduce " + std::to_string(count) + " of type " + std::to_string(type) + " by " +
               std::to_string(op));
}
Result ncclReduceScatter(const void*, void*, size_t out, int type, int op, ncclComm*, CUstream_st*) {
  return noted("reduce_scatter to " + std::to_string(out) + " of type " + std::to_string(type) + " by " +
               std::to_string(op));
}
Result ncclAllGather(const void*, void*, size_t in, int type, ncclComm*, CUstream_st*) {
  return noted("all_gather of " + std::to_string(in) + " of type " + std::to_string(type));
}
Result ncclBroadcast(const void*, void*, size_t count, int type, int root, ncclComm*, CUstream_st*) {
  return noted("broadcast " + std::to_string(count) + " of type " + std::to_string(type) + " from " +
               std::to_string(root));
}

}  // extern "C"
