// Loaded before the C library (LD_PRELOAD), makes chosen calls of the program fail. The environment selects them:
//   FAULT_CALL   write, short (a write that takes half), fsync, open (of a new file), statvfs, hash, flip, slow
//   FAULT_MATCH  part of the path that the call is about; of hash: the length of the hashed array in
//                bytes; of flip: the name of the first parameter of the table; of slow: microseconds that each product
//                of matrices takes longer
//   FAULT_ERRNO  what the call fails with; 0: it waits while the file FAULT_WHILE exists, and makes FAULT_SEEN first
//   FAULT_FIRST, FAULT_TIMES  the first matching call that fails, counted from 1, and how many do (0: all)
//   FAULT_RANK   only on this rank
// flip turns a bit of the weights, as broken memory would, when the name is hashed: first where values are drawn, then
// for each hash of the parameters. It turns FAULT_AT bytes after the start of the first arena that the process makes,
// which begins with the weights.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<void*> first_arena = nullptr;

const char* setting(const char* name) {
  const char* value = getenv(name);
  return value ? value : "";
}

bool on_this_rank() {
  if (!*setting("FAULT_RANK")) return true;
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (*setting(name)) return strcmp(setting(name), setting("FAULT_RANK")) == 0;
  }
  return false;
}

bool is_due(const char* call, const char* subject) {
  static std::atomic<int> calls = 0;
  if (strcmp(setting("FAULT_CALL"), call) != 0 || !strstr(subject, setting("FAULT_MATCH")) || !on_this_rank())
    return false;
  const int first = *setting("FAULT_FIRST") ? atoi(setting("FAULT_FIRST")) : 1, times = atoi(setting("FAULT_TIMES"));
  const int number = ++calls;
  return number >= first && (times == 0 || number < first + times);
}

/// True if the call must fail; false after a requested wait.
bool fails(const char* call, const char* subject) {
  if (!is_due(call, subject)) return false;
  errno = atoi(setting("FAULT_ERRNO"));
  if (errno != 0) return true;
  close(creat(setting("FAULT_SEEN"), 0600));
  while (access(setting("FAULT_WHILE"), F_OK) == 0) usleep(1000);
  return false;
}

bool fails(const char* call, int fd) {
  if (strcmp(setting("FAULT_CALL"), call) != 0) return false;
  char link[64] = "/proc/self/fd/", path[PATH_MAX] = "";
  char digits[16];
  int n = 0;
  for (int rest = fd; rest > 0 || n == 0; rest /= 10) digits[n++] = static_cast<char>('0' + rest % 10);
  for (size_t end = strlen(link); n > 0; ++end) link[end] = digits[--n];
  const ssize_t length = readlink(link, path, sizeof path - 1);
  return length > 0 && fails(call, path);
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// How much of a write the system takes.
size_t part_of(size_t size, int fd) { return size > 1 && fails("short", fd) ? size / 2 : size; }

int open_or_fail(const char* name, const char* path, int flags, mode_t mode) {
  if ((flags & O_CREAT) && fails("open", path)) return -1;
  return real<int(const char*, int, ...)>(name)(path, flags, mode);
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  return fails("write", fd) ? -1 : real<decltype(write)>("write")(fd, data, part_of(size, fd));
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  return fails("write", fd) ? -1 : real<decltype(pwrite)>("pwrite")(fd, data, part_of(size, fd), at);
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t at) {
  return fails("write", fd) ? -1 : real<decltype(pwrite64)>("pwrite64")(fd, data, part_of(size, fd), at);
}
int fsync(int fd) { return fails("fsync", fd) ? -1 : real<decltype(fsync)>("fsync")(fd); }

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const auto mode = static_cast<mode_t>(va_arg(rest, unsigned));
  va_end(rest);
  return open_or_fail("open", path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const auto mode = static_cast<mode_t>(va_arg(rest, unsigned));
  va_end(rest);
  return open_or_fail("open64", path, flags, mode);
}

int statvfs(const char* path, struct statvfs* info) noexcept {
  const int code = real<int(const char*, struct statvfs*)>("statvfs")(path, info);
  if (fails("statvfs", path)) info->f_bavail = 3;
  return code;
}
int statvfs64(const char* path, struct statvfs64* info) noexcept {
  const int code = real<int(const char*, struct statvfs64*)>("statvfs64")(path, info);
  if (fails("statvfs", path)) info->f_bavail = 3;
  return code;
}

int dnnl_primitive_execute(const void* primitive, void* stream, int count, const void* arguments) {
  if (strcmp(setting("FAULT_CALL"), "slow") == 0 && on_this_rank()) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(atoi(setting("FAULT_MATCH")));
    while (std::chrono::steady_clock::now() < end) {
    }
  }
  return real<int(const void*, void*, int, const void*)>("dnnl_primitive_execute")(primitive, stream, count, arguments);
}

int madvise(void* start, size_t bytes, int advice) noexcept {
  void* none = nullptr;
  if (advice == MADV_HUGEPAGE) first_arena.compare_exchange_strong(none, start);
  return real<int(void*, size_t, int)>("madvise")(start, bytes, advice);
}

uint64_t XXH3_64bits(const void* data, size_t length) {
  const char *call = setting("FAULT_CALL"), *match = setting("FAULT_MATCH");
  if (strcmp(call, "hash") == 0 && length == static_cast<size_t>(atoll(match))) fails("hash", match);
  if (strcmp(call, "flip") == 0 && length == strlen(match) && memcmp(data, match, length) == 0 && fails("flip", match))
    static_cast<unsigned char*>(first_arena.load())[atoi(setting("FAULT_AT")) + 2] ^= 0x10;
  return real<uint64_t(const void*, size_t)>("XXH3_64bits")(data, length);
}

}  // extern "C"
