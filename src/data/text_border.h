#pragma once
// Where a single text is divided into training and validation.

#include <cstdint>
#include <string>

namespace trireme {

/// Byte offset of character int(fraction * n) of the n characters in a (possibly compressed) UTF-8 file; a character is
/// any byte that does not continue one. Reads the file twice. Throws Error::data when one side would be empty.
uint64_t text_border(const std::string& path, double fraction);

}  // namespace trireme
