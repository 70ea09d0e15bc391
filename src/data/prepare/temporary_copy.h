#pragma once
// Copies standard input or another pipe to a file, so that it can be read more than once.

#include <cstddef>
#include <string>

namespace trireme {

class TemporaryCopy {
 public:
  /// Copies `source` into a file in the folder, removed with the object. Its name has the number, different for each
  /// copy, and the source's suffix, which shows the compression. Throws Error::io.
  TemporaryCopy(const std::string& folder, const std::string& source, size_t number);
  TemporaryCopy(const TemporaryCopy&) = delete;
  TemporaryCopy& operator=(const TemporaryCopy&) = delete;
  ~TemporaryCopy();

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace trireme
