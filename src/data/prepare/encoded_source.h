#pragma once
// Text from a source, as UTF-8.

#include <memory>
#include <string>

#include "data/prepare/byte_source.h"

namespace trireme {

/// Of the flag --encoding, wherever text is read.
inline constexpr const char* kEncodingHelp =
    "encoding of the text, by iconv's name (UTF-16, windows-1252, GB18030, ...): it is converted to UTF-8; utf-8: "
    "bytes are "
    "taken as they are; auto: the same, but text that is evidently in another encoding is refused";

/// What the user says of the encoding of the input.
struct InputEncoding {
  std::string name;    ///< as known_encoding() gives it; empty: nothing is converted
  bool judges = true;  ///< and text that is evidently not UTF-8 is refused
};
/// Of --encoding; "auto": judged. Throws Error::usage.
InputEncoding input_encoding_from(const std::string& name);

/// Converts what `from` gives, or judges it while it is read. where: the file's name; of_lines: as EncodingJudge has
/// it. Reading throws Error::data.
std::unique_ptr<ByteSource> as_utf8(std::unique_ptr<ByteSource> from, const InputEncoding& encoding,
                                    const std::string& where, bool of_lines);

}  // namespace trireme
