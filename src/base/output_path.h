#pragma once
// What the name of an output stands for, and whether a result can be written there before it has been computed.

#include <string>

namespace trireme {

/// Symbolic links are followed: what they name is written, and they stay.
struct OutputTarget {
  std::string path;        ///< a file, which may be missing: to be replaced at once; a stream: to be written as it is
  bool is_stream = false;  ///< a pipe, a device, or an open descriptor such as /dev/stdout
  int descriptor = -1;     ///< of this process, that a stream's name stands for
};
/// Throws Error::io: a folder, a socket, a disk, a circle of links.
OutputTarget output_target(const std::string& path);

/// A descriptor that writes to the stream. A pipe's reader may come within `seconds`. Throws Error::io.
int open_stream(const OutputTarget& stream, double seconds);
constexpr double kReaderSeconds = 2;  ///< a program that was started together with this one needs less

/// Why nothing can be written under this name; empty: it can.
std::string why_no_output(const std::string& path);

}  // namespace trireme
