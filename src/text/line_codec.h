#pragma once
// Encoding and decoding line by line, for `trireme tokenizer encode` and `decode`.

#include <cstdio>
#include <string>

#include "text/tokenizer.h"

namespace trireme {

struct LineCodecOptions {
  bool json_lines = false;  ///< each line is {"text": ..., "text_pair": ...}, the second is optional
  bool skip_special_tokens = false;
  EncodeOptions encode;
  std::string encoding;  ///< of the text, as from known_encoding(); empty: UTF-8
  bool judges = true;    ///< if empty: refuses text that is evidently not UTF-8
};

/// Writes one JSON array of ids per line. A line ends with \n, which is not part of the text; optional for the last
/// line. Throws Error::data naming `where` and the line, Error::io.
void encode_lines(const Tokenizer& tokenizer, const LineCodecOptions& options, std::FILE* in, std::FILE* out,
                  const std::string& where);

/// Reads JSON arrays of ids, one per line, and writes the text of each and \n; a blank line stays one. Throws as
/// encode_lines().
void decode_lines(const Tokenizer& tokenizer, const LineCodecOptions& options, std::FILE* in, std::FILE* out,
                  const std::string& where);

}  // namespace trireme
