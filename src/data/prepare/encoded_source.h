#pragma once
// Converts text from a source to UTF-8.

#include <memory>
#include <string>

#include "data/prepare/byte_source.h"

namespace trireme {

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
