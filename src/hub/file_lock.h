#pragma once
// Locks between processes, compatible with huggingface_hub: flock() on a file of .locks/ in the cache.

#include <functional>
#include <string>

namespace trireme::hub {

/// Held while it exists; the system releases it when its process ends, however that happens.
class FileLock {
 public:
  /// Waits for the lock; while another process holds it, calls `waiting` at once and then every 100 ms; `waiting` may
  /// throw. Makes the parent folders. Throws Error::io, also if the file system does not support such locks.
  FileLock(const std::string& path, const std::function<void()>& waiting);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  int fd_ = -1;
};

}  // namespace trireme::hub
