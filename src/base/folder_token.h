#pragma once
// Whether several hosts see the same folder: one creates a file with a unique name in it, the others look for it.

#include <string>

namespace trireme {

inline constexpr const char* kTokenPrefix = ".trireme-shared-";

/// A unique file name.
std::string token_name();
/// Makes the empty file. Throws Error::io.
void leave_token(const std::string& folder, const std::string& name);
/// Whether the file appears within `seconds`: a network file system may show new files late, so each attempt reads the
/// folder and its parents again.
bool find_token(const std::string& folder, const std::string& name, double seconds);
/// Removes it if it exists.
void take_token(const std::string& folder, const std::string& name);

/// Seconds for find_token(): plenty, because NFS asks its server again when a folder is opened.
constexpr double kTokenSeconds = 10;

}  // namespace trireme
