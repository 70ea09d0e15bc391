#pragma once
// Standard input as a file, where it must be read more than once.

#include <string>

namespace trireme {

class TemporaryCopy {
 public:
  /// Reads `source` to its end into a file in the folder, removed with the object. Throws Error::io.
  TemporaryCopy(const std::string& folder, const std::string& source);
  TemporaryCopy(const TemporaryCopy&) = delete;
  TemporaryCopy& operator=(const TemporaryCopy&) = delete;
  ~TemporaryCopy();

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace trireme
