#include "cuda/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/error.h"

namespace trireme::nccl {
namespace {

constexpr int kOldest = 21800;

template <class F>
void find_symbol(void* library, const char* name, F& function) {
  void* symbol = dlsym(library, name);
  require(symbol != nullptr, ErrorKind::usage, "the NCCL that was found lacks {}; version {} or newer is needed", name,
          version_text(kOldest));
  function = reinterpret_cast<F>(symbol);
}

}  // namespace

std::string version_text(int number) {
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

Library load(void* opened) {
  Library l;
  find_symbol(opened, "ncclGetVersion", l.version);
  l.version(&l.number);
  require(l.number >= kOldest, ErrorKind::usage, "NCCL {} was found; version {} or newer is needed",
          version_text(l.number), version_text(kOldest));
  find_symbol(opened, "ncclGetErrorString", l.error_text);
  find_symbol(opened, "ncclGetLastError", l.last_error);
  find_symbol(opened, "ncclGetUniqueId", l.make_id);
  find_symbol(opened, "ncclCommInitRankConfig", l.connect);
  find_symbol(opened, "ncclCommSplit", l.split);
  find_symbol(opened, "ncclCommGetAsyncError", l.state);
  find_symbol(opened, "ncclCommFinalize", l.finalize);
  find_symbol(opened, "ncclCommDestroy", l.destroy);
  find_symbol(opened, "ncclCommAbort", l.abort);
  find_symbol(opened, "ncclGroupStart", l.begin_group);
  find_symbol(opened, "ncclGroupEnd", l.end_group);
  find_symbol(opened, "ncclSend", l.issue_send);
  find_symbol(opened, "ncclRecv", l.issue_receive);
  find_symbol(opened, "ncclAllReduce", l.issue_all_reduce);
  find_symbol(opened, "ncclReduceScatter", l.issue_reduce_scatter);
  find_symbol(opened, "ncclAllGather", l.issue_all_gather);
  find_symbol(opened, "ncclBroadcast", l.issue_broadcast);
  return l;
}

}  // namespace trireme::nccl
