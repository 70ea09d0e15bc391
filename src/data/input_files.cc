#include "data/input_files.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "data/byte_source.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::optional<InputKind> kind_of(const std::string& path) {
  const std::string name = uncompressed_name(path);
  if (name.ends_with(".txt") || name.ends_with(".text")) return InputKind::text;
  if (name.ends_with(".jsonl") || name.ends_with(".ndjson") || name.ends_with(".json")) return InputKind::json_lines;
  return std::nullopt;
}

void add_file(const std::string& path, std::vector<InputFile>& files) {
  const std::optional<InputKind> kind = kind_of(path);
  require(kind.has_value(), ErrorKind::usage,
          "{}: the name does not tell the format; .txt and .jsonl are read, also with .gz or .zst behind", path);
  files.push_back({path, *kind, fs::file_size(path)});
}

void add_folder(const std::string& folder, std::vector<InputFile>& files) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && kind_of(entry.path().string())) paths.push_back(entry.path().string());
  }
  require(!paths.empty(), ErrorKind::io, "folder {} has no .txt or .jsonl files", folder);
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) add_file(path, files);
}

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return paths;
}

void add_path(const std::string& path, std::vector<InputFile>& files) {
  if (fs::is_directory(path)) return add_folder(path, files);
  if (fs::exists(path)) return add_file(path, files);
  const std::vector<std::string> found = matches(path);
  require(!found.empty(), ErrorKind::io, "input {} does not exist", path);
  for (const std::string& match : found) add_path(match, files);
}

void add_argument(const std::string& argument, std::vector<InputFile>& files) {
  if (fs::exists(argument)) return add_path(argument, files);  // a comma may be part of a name
  size_t at = 0;
  while (true) {
    const size_t comma = argument.find(',', at);
    add_path(argument.substr(at, comma - at), files);
    if (comma == std::string::npos) return;
    at = comma + 1;
  }
}

}  // namespace

std::vector<InputFile> list_inputs(const std::vector<std::string>& arguments) {
  std::vector<InputFile> files;
  for (const std::string& argument : arguments) add_argument(argument, files);
  require(!files.empty(), ErrorKind::usage, "no input files were given");
  return files;
}

}  // namespace trireme
