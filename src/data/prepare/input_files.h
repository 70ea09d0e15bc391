#pragma once
// Which files `--input` means, and what each of them holds.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/prepare/encoded_source.h"

namespace trireme {

enum class InputKind {
  text,        ///< .txt: the whole file is one document
  json_lines,  ///< .jsonl: each line is an object, some of whose fields are documents
  archive,     ///< .tar: text and jsonl files, each of which may be compressed
  parquet,     ///< .parquet: some of its columns are documents; read as json_lines
};

struct InputFile {
  std::string path;  ///< "-": standard input
  InputKind kind;
  uint64_t bytes;  ///< on disk; 0 for standard input
  InputEncoding encoding = {};
};

/// What a file of that name holds, a compression suffix aside.
std::optional<InputKind> kind_of(const std::string& path);

/// Each argument is a file, a folder (all readable files in it and below, by name), a glob, "-" for standard input, or
/// a data set of the Hugging Face hub (hub/place.h), or
/// several of these with commas between, which blanks may surround. Of a folder, what `trireme prepare` or a run wrote
/// is left out, hidden folders too. The order is that of the arguments. `forced` is
/// what every file holds, whatever its name says; without it standard input is jsonl. Throws Error::io for what is not
/// there, Error::usage for a file whose name does not tell its format.
std::vector<InputFile> list_inputs(const std::vector<std::string>& arguments, std::optional<InputKind> forced = {},
                                   const InputEncoding& encoding = {});

/// Whether that is one .txt file: a text that is divided by characters, not by documents.
bool is_single_text(const std::vector<InputFile>& files);

/// "auto", "txt" or "jsonl", as a user gives them for list_inputs(). Throws Error::usage.
std::optional<InputKind> input_kind_from(const std::string& name);

}  // namespace trireme
