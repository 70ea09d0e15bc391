#pragma once
#include <filesystem>
#include <string>

namespace trireme {

/// A private temporary folder for files that other programs read; removed with the object.
class PrivateFolder {
 public:
  /// TMPDIR/trireme-NAME-XXXXXX. Throws Error::io.
  explicit PrivateFolder(const char* name);
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  std::string file(const std::string& name) const { return path_ / name; }
  std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace trireme
