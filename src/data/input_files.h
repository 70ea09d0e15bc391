#pragma once
// Which files `--input` means, and what each of them holds.

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

enum class InputKind {
  text,        ///< .txt: the whole file is one document
  json_lines,  ///< .jsonl: each line is an object, one of whose fields is a document
};

struct InputFile {
  std::string path;
  InputKind kind;
  uint64_t bytes;  ///< on disk
};

/// Each argument is a file, a folder (all text and jsonl files in it and below, by name), a glob, or several of these
/// with commas between. The order is that of the arguments. Throws Error::io for what is not there, Error::usage for a
/// file whose name does not tell its format.
std::vector<InputFile> list_inputs(const std::vector<std::string>& arguments);

}  // namespace trireme
