#pragma once
// Recognizes files of other kinds that are given as token files, by their first bytes and structure.

#include <optional>
#include <string>
#include <string_view>

namespace trireme {

struct FileSignature {
  std::string what;  ///< with its article: "a gzip file"
  std::string todo;  ///< how to make training data of it
};

/// The kind of `file`, the content of the file at `path`; empty if unknown. Also checks the bytes after the first ones,
/// so that 16-bit ids do not match.
std::optional<FileSignature> signature_of(std::string_view file, const std::string& path);

/// The same without kinds of text. `file` may be the first bytes only; then kinds that need the last ones are not
/// found.
std::optional<FileSignature> binary_signature_of(std::string_view file);

/// Throws Error::data naming the kind of the file at `path` if `file`, its first bytes or all, is of a binary kind.
void require_text(std::string_view file, const std::string& path);

/// UTF-8 text without control characters, longer than a few characters.
bool looks_like_text(std::string_view file);

}  // namespace trireme
