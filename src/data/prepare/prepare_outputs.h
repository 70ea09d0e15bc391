#pragma once
// The files that one preparation leaves in its folder: made elsewhere, then moved there all at once.

#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

class PrepareOutputs {
 public:
  /// making: a folder of the same file system, emptied first.
  PrepareOutputs(std::filesystem::path folder, std::filesystem::path making);

  /// Where to write the file of that name.
  std::string path(const std::string& name) const { return (making_ / name).string(); }
  /// A token file of an earlier preparation, and its sidecar, would not belong to this one: publish() removes them.
  void remove_old(const std::string& name) { old_.push_back(name); }
  /// Moves everything to its place. Throws Error::io.
  void publish() const;

 private:
  std::filesystem::path folder_, making_;
  std::vector<std::string> old_;
};

}  // namespace trireme
