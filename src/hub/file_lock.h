#pragma once
// Locks between processes as huggingface_hub has them: flock() on a file of .locks/ in the cache.

#include <functional>
#include <string>

namespace trireme::hub {

/// Held while it lives; the system lets go of it when its process ends, however that happens.
class FileLock {
 public:
  /// Waits until nobody else holds it; `waiting` is called at once when somebody does and then every 100 ms, and may
  /// throw. Makes the folders above. Throws Error::io, also where the file system has no such locks.
  FileLock(const std::string& path, const std::function<void()>& waiting);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  int fd_ = -1;
};

}  // namespace trireme::hub
