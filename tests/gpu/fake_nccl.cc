// In place of libnccl.so.2: writes down its calls and answers as the test wants. It demands what NCCL demands of
// communicators that do not block: a call that goes on in the background is polled to its end before the next one, a
// split is polled by its parent and its communicator is not there before that, and what is there is destroyed or
// aborted, once. What breaks that is in the calls after the word WRONG.

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "cuda/nccl_library.h"

using namespace trireme::nccl;

struct ncclComm {
  ncclComm** child = nullptr;  ///< where a split that goes on will write
  bool colored = false;        ///< and whether it will
  bool failed = false;
};

extern "C" {

// What the test reads and sets.
extern std::string fake_calls, fake_last_error;
extern int fake_version, fake_polls, fake_child_polls;
extern Result fake_state;
extern std::atomic<bool> fake_abort_hangs, fake_abort_goes_on;
std::string fake_calls, fake_last_error;
int fake_version = 22809;
int fake_polls = 0;        ///< that many times a call is still in progress
int fake_child_polls = 0;  ///< the same of a communicator that a split has made
Result fake_state = kSuccess;
std::atomic<bool> fake_abort_hangs = false, fake_abort_goes_on = false;  ///< the next one, until it goes on
size_t fake_communicators();                                             ///< that are there

}  // extern "C"

namespace {

std::mutex mutex;  // several groups may be aborted at once
std::set<ncclComm*> alive;

void note(const std::string& call) {
  const std::lock_guard lock(mutex);
  fake_calls += call + "\n";
}
Result noted(const std::string& call) {
  note(call);
  return fake_polls > 0 ? kInProgress : kSuccess;
}

ncclComm* make() {
  auto* comm = new ncclComm;
  const std::lock_guard lock(mutex);
  alive.insert(comm);
  return comm;
}
/// Notes a use of what is not there, or of what is being split.
bool usable(ncclComm* comm, const char* by) {
  bool there = false, split = false;
  {
    const std::lock_guard lock(mutex);
    there = alive.contains(comm);
    split = there && comm->child != nullptr;
  }
  if (!there) note(std::string("WRONG: no communicator for ") + by);
  if (split) note(std::string("WRONG: before the split is done: ") + by);
  return there && !split;
}
void forget(ncclComm* comm) {
  const std::lock_guard lock(mutex);
  if (alive.erase(comm) > 0) delete comm;
}
void end_split(ncclComm* parent, bool failed) {
  if (parent->child == nullptr) return;
  if (parent->colored) (*parent->child = make())->failed = failed;
  parent->child = nullptr;
}
std::string described(const Config& config) {
  return " blocking " + std::to_string(config.blocking) + " blocks " + std::to_string(config.most_blocks) + " shares " +
         std::to_string(config.shares_on_split);
}

}  // namespace

extern "C" {

size_t fake_communicators() {
  const std::lock_guard lock(mutex);
  return alive.size();
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
  *comm = make();
  return noted("connect " + std::to_string(ranks) + " " + std::to_string(rank) + " id " +
               std::to_string(static_cast<int>(id.bytes[127])) + described(*config));
}
Result ncclCommSplit(ncclComm* parent, int color, int key, ncclComm** comm, Config* config) {
  *comm = nullptr;
  if (!usable(parent, "a split")) return static_cast<Result>(4);
  note("split color " + std::to_string(color) + " key " + std::to_string(key) + described(*config));
  parent->child = comm;
  parent->colored = color != kNoColor;
  return kInProgress;
}
Result ncclCommGetAsyncError(ncclComm* comm, Result* result) {
  *result = kSuccess;
  {
    const std::lock_guard lock(mutex);
    if (!alive.contains(comm)) {
      fake_calls += "WRONG: no communicator for a poll\n";
      return static_cast<Result>(4);
    }
  }
  int& polls = comm->child == nullptr && fake_child_polls > 0 ? fake_child_polls : fake_polls;
  *result = polls > 0 ? kInProgress : fake_state;
  if (polls > 0)
    --polls;
  else
    end_split(comm, fake_state != kSuccess);
  return kSuccess;
}
Result ncclCommFinalize(ncclComm* comm) {
  usable(comm, "its end");
  return noted("finalize");
}
Result ncclCommDestroy(ncclComm* comm) {
  usable(comm, "its end");
  forget(comm);
  return noted("destroy");
}
Result ncclCommAbort(ncclComm* comm) {
  bool there = false;
  {
    const std::lock_guard lock(mutex);
    there = alive.contains(comm);
  }
  if (fake_abort_hangs.exchange(false)) {
    note("an abort that hangs");
    while (!fake_abort_goes_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!there) note("WRONG: no communicator for an abort");
  note(there && comm->failed ? "abort of a failed split" : "abort");
  if (there) end_split(comm, true);
  forget(comm);
  return kSuccess;
}
Result ncclGroupStart() {
  note("begin");
  return kSuccess;
}
Result ncclGroupEnd() { return noted("end"); }
Result ncclSend(const void*, size_t count, int type, int peer, ncclComm* comm, CUstream_st*) {
  usable(comm, "a send");
  return noted("send " + std::to_string(count) + " of type " + std::to_string(type) + " to " + std::to_string(peer));
}
Result ncclRecv(void*, size_t count, int, int peer, ncclComm* comm, CUstream_st*) {
  usable(comm, "a receive");
  return noted("receive " + std::to_string(count) + " from " + std::to_string(peer));
}
Result ncclAllReduce(const void*, void*, size_t count, int type, int op, ncclComm* comm, CUstream_st*) {
  usable(comm, "a collective");
  return noted("all_reduce " + std::to_string(count) + " of type " + std::to_string(type) + " by " +
               std::to_string(op));
}
Result ncclReduceScatter(const void*, void*, size_t out, int type, int op, ncclComm* comm, CUstream_st*) {
  usable(comm, "a collective");
  return noted("reduce_scatter to " + std::to_string(out) + " of type " + std::to_string(type) + " by " +
               std::to_string(op));
}
Result ncclAllGather(const void*, void*, size_t in, int type, ncclComm* comm, CUstream_st*) {
  usable(comm, "a collective");
  return noted("all_gather of " + std::to_string(in) + " of type " + std::to_string(type));
}
Result ncclBroadcast(const void*, void*, size_t count, int type, int root, ncclComm* comm, CUstream_st*) {
  usable(comm, "a collective");
  return noted("broadcast " + std::to_string(count) + " of type " + std::to_string(type) + " from " +
               std::to_string(root));
}

}  // extern "C"
