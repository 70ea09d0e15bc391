#pragma once
// Standard input or another pipe as a file, where it must be read more than once.

#include <cstddef>
#include <string>

namespace trireme {

class TemporaryCopy {
 public:
  /// Reads `source` to its end into a file in the folder, removed with the object; its name has the number, one for
  /// each copy, and ends like the source's, which says how it is compressed. Throws Error::io.
  TemporaryCopy(const std::string& folder, const std::string& source, size_t number);
  TemporaryCopy(const TemporaryCopy&) = delete;
  TemporaryCopy& operator=(const TemporaryCopy&) = delete;
  ~TemporaryCopy();

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace trireme
