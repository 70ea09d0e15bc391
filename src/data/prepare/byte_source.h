#pragma once
// Sequential bytes of an input.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace trireme {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Reads up to `size` bytes; 0 at the end. Throws Error::io, Error::data (damaged compression).
  virtual size_t read(char* to, size_t size) = 0;
  /// Bytes of the file itself consumed so far, for progress.
  virtual uint64_t consumed() const = 0;
  /// Skips bytes. Throws Error::data if there are fewer.
  virtual void skip(uint64_t bytes);
};

/// The name of standard input.
constexpr const char* kStandardInput = "-";

/// Opens a file without decompression, or standard input. Throws Error::io.
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

/// Opens a file and decompresses it according to its name. Throws Error::io.
std::unique_ptr<ByteSource> open_source(const std::string& path);

// gzip and zstd, recognized by name: NAME.gz, NAME.zst, for tar archives also .tgz and .tzst. Several members or frames
// may follow each other, with zeros after the last one; zstd may have any window.

enum class Compression { none, gzip, zstd };
Compression compression_of(const std::string& path);

/// The name without a compression suffix, in lower case, which identifies the format.
std::string uncompressed_name(const std::string& path);

/// Decompresses `from` if `path` has a compression suffix. Reading throws Error::data naming `path` if the data is
/// damaged or truncated.
std::unique_ptr<ByteSource> decompressed(std::unique_ptr<ByteSource> from, const std::string& path);

// Converts text from a source to UTF-8.

/// Help of the flag --encoding, for all commands that read text.
inline constexpr const char* kEncodingHelp =
    "encoding of the text, by iconv's name (UTF-16, windows-1252, GB18030, ...), converted to UTF-8; utf-8: bytes are "
    "used unchanged; auto: the same, but text that is evidently in another encoding is an error";

/// The encoding of the input, as given by the user.
struct InputEncoding {
  std::string name;    ///< as from known_encoding(); empty: no conversion
  bool judges = true;  ///< refuse text that is evidently not UTF-8
};
/// From the value of --encoding; "auto": judges. Throws Error::usage.
InputEncoding input_encoding_from(const std::string& name);

/// Converts the text of `from`, or judges it while it is read. where: the file's name; of_lines: as in EncodingJudge.
/// Reading throws Error::data.
std::unique_ptr<ByteSource> as_utf8(std::unique_ptr<ByteSource> from, const InputEncoding& encoding,
                                    const std::string& where, bool of_lines);

}  // namespace trireme
