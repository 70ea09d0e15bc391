#pragma once
// Files of other kinds that are taken for token files: known by how they begin and are built.

#include <optional>
#include <string>
#include <string_view>

namespace trireme {

struct FileSignature {
  std::string what;  ///< with its article: "a gzip file"
  std::string todo;  ///< what makes training data of it
};

/// What `file`, the content of the file at `path`, is; empty where nothing is known of it. Beside the first bytes, what
/// follows them is looked at, so that ids of 16 bits are not taken for one of these.
std::optional<FileSignature> signature_of(std::string_view file, const std::string& path);

/// Text of UTF-8 without control characters, of more than a few characters.
bool looks_like_text(std::string_view file);

}  // namespace trireme
