#pragma once
// Whether a folder is the same one in several places: a file of a name that nobody had before is left in it and looked
// for elsewhere.

#include <string>

namespace trireme {

inline constexpr const char* kTokenPrefix = ".trireme-shared-";

/// A name that no file has had.
std::string token_name();
/// Makes the empty file. Throws Error::io.
void leave_token(const std::string& folder, const std::string& name);
/// Whether the file appears within `seconds`: a network file system may tell of new files late, so the folder and its
/// parents are read anew at each look.
bool find_token(const std::string& folder, const std::string& name, double seconds);
/// Removes it if it is there.
void take_token(const std::string& folder, const std::string& name);

/// Seconds for find_token(): NFS asks its server again when a folder is opened, so that this is plenty.
constexpr double kTokenSeconds = 10;

}  // namespace trireme
