#pragma once
// The prompts of `trireme sample` from files.

#include <string>
#include <vector>

#include "data/prepare/byte_source.h"

namespace trireme {

/// One prompt per line, in order; lines without text are skipped. In a .jsonl file a line is a JSON string, or an
/// object with the text as "prompt", "text" or "context". Throws Error::io, Error::data naming the line.
/// The file is read in the encoding that is given.
std::vector<std::string> read_prompts(const std::string& path, const InputEncoding& encoding = {});

/// nanoGPT's --start: the text, or with FILE:PATH the whole file. Throws Error::io.
std::string read_start(const std::string& start, const InputEncoding& encoding = {});

}  // namespace trireme
