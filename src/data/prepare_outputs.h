#pragma once
// The files that one preparation leaves in its folder: all of them or none.

#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

class PrepareOutputs {
 public:
  explicit PrepareOutputs(const std::string& folder) : folder_(folder) {}
  PrepareOutputs(const PrepareOutputs&) = delete;
  PrepareOutputs& operator=(const PrepareOutputs&) = delete;
  /// Without keep(), removes what was written.
  ~PrepareOutputs();

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  /// The file of that name is now this preparation's.
  void wrote(const std::string& name) { written_.push_back(folder_ / name); }
  /// Removes a token file of an earlier preparation, and its sidecar: it would not belong to this one.
  void remove_old(const std::string& name);
  void keep() { written_.clear(); }

 private:
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> written_;
};

}  // namespace trireme
