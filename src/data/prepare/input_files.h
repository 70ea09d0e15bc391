#pragma once
// Finds the files of `--input` and their formats.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/prepare/byte_source.h"

namespace trireme {

enum class InputKind {
  text,        ///< .txt: the complete file is one document
  json_lines,  ///< .jsonl: each line is an object; some of its fields are documents
  archive,     ///< .tar: text and jsonl files, each of which may be compressed
  parquet,     ///< .parquet: some of its columns are documents; read as json_lines
};

struct InputFile {
  std::string path;  ///< "-": standard input
  InputKind kind;
  uint64_t bytes;  ///< on disk; 0 for standard input
  InputEncoding encoding = {};
};

/// The kind of a file by its name, without a compression suffix.
std::optional<InputKind> kind_of(const std::string& path);

/// Each argument is a file, a folder (all readable files in it and below, by name), a glob, "-" for standard input, or
/// a data set of the Hugging Face hub (hub/place.h), or several of these separated by commas and optional blanks. In
/// folders, hidden folders and files written by `trireme prepare` or a run are skipped; a warning names every other
/// file that is not read, with the reason. Keeps the order of the arguments. `forced` sets the kind of every file,
/// whatever its name; without it standard input is jsonl. Throws Error::io for a missing file, Error::usage for a name
/// without a known format.
std::vector<InputFile> list_inputs(const std::vector<std::string>& arguments, std::optional<InputKind> forced = {},
                                   const InputEncoding& encoding = {});

/// Whether the input is one .txt file, which is split by characters, not by documents.
bool is_single_text(const std::vector<InputFile>& files);

/// Parses "auto", "txt" or "jsonl" for list_inputs(). Throws Error::usage.
std::optional<InputKind> input_kind_from(const std::string& name);

}  // namespace trireme
