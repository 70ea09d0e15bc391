#pragma once
// The result files of a preparation: written elsewhere, then moved to their folder together.

#include <filesystem>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace trireme {

class PrepareOutputs {
 public:
  /// making: a folder of the same file system, emptied first.
  PrepareOutputs(std::filesystem::path folder, std::filesystem::path making);

  /// The path at which to write the file of that name.
  std::string path(const std::string& name) const { return (making_ / name).string(); }
  /// Marks a token file of an earlier preparation, and its sidecar, for removal by publish().
  void remove_old(const std::string& name) { old_.push_back(name); }
  /// Moves all files to their places. Throws Error::io.
  void publish() const;

 private:
  std::filesystem::path folder_, making_;
  std::vector<std::string> old_;
};

/// The id after documents: that of the token `named` or, if that is empty, the tokenizer's own. `path` of the tokenizer
/// and `purpose` of the id are for the message of the Error::data if it is missing.
TokenId end_of_text_id(const Tokenizer& tokenizer, const std::string& named, const std::string& path,
                       const std::string& purpose);

}  // namespace trireme
