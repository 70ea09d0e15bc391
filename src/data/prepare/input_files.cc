#include "data/prepare/input_files.h"

#include <fmt/ranges.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "data/file_signature.h"
#include "data/prepare/byte_source.h"
#include "hub/place.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// Remedies for names without a known format.
using Forced = std::optional<InputKind>;

/// Files that this program writes beside its token files and into run folders.
bool is_own_output(const fs::path& path) {
  const std::string name = path.filename().string();
  static constexpr const char* kNames[] = {"tokenizer.json", "meta.json",          "manifest.json",
                                           "status.json",    "control.json",       "config.json",
                                           "metrics.jsonl",  "trainer_state.json", "mlflow.json"};
  if (name.ends_with(".bin.json") || name.ends_with(".bin") || name.ends_with(".idx")) return true;
  const bool fixed = std::ranges::find(kNames, name) != std::end(kNames);
  if (!fixed) return false;
  const fs::path folder = path.parent_path();
  const auto beside = [&](const char* other) { return fs::exists(folder / other); };
  // Names that other programs also use count only beside the other files.
  return beside("train.bin") || beside("status.json") || beside("manifest.json") || beside("model.safetensors");
}

void add_file(const std::string& path, Forced forced, std::vector<InputFile>& files) {
  require(!path.ends_with(".bin.json"), ErrorKind::usage, "{} describes an existing token file; name the text", path);
  const std::optional<InputKind> kind = forced ? forced : kind_of(path);
  require(kind.has_value(), ErrorKind::usage,
          "{}: unknown format; supported names end in .txt, .jsonl, .parquet, or .tar of .txt and .jsonl, all except "
          ".parquet also with .gz or .zst; or use --input-format txt or jsonl",
          path);
  files.push_back({path, *kind, fs::is_regular_file(path) ? fs::file_size(path) : 0});
}

/// `datasets` describes what save_to_disk() wrote in these files, which hold no text.
bool describes_arrow(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name != "dataset_info.json" && name != "state.json" && name != "dataset_dict.json") return false;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path.parent_path(), none)) {
    if (entry.path().extension() == ".arrow") return true;
  }
  return false;
}

/// Why a file of a folder is not read, and what helps.
std::string why_left_out(const fs::path& path) {
  const std::string ending = lower_case(path.extension().string());
  const auto is = [&](std::initializer_list<const char*> endings) {
    return std::ranges::find(endings, ending) != endings.end();
  };
  if (is({".zip", ".7z", ".rar", ".bz2", ".xz", ".lzma", ".lz4", ".br", ".z"}))
    return "compressed in a way that is not read: unpack it first; if the names of its files do not show the format, "
           "use "
           "--input FILE --input-format txt or jsonl";
  if (ending == ".arrow")
    return "Arrow: write Parquet instead, with Python's datasets: "
           "load_from_disk(\"FOLDER\")[\"train\"].to_parquet(\"FILE.parquet\"), or Dataset.from_file(FILE) for one "
           "file";
  if (describes_arrow(path)) return "it only describes the Arrow files beside it";
  if (is({".csv", ".tsv"})) return "a table: write its texts as jsonl or Parquet";
  try {
    if (const auto found = binary_signature_of(MappedFile(path.string()).text())) return found->what;
  } catch (const Error& error) {
    return error.what();
  }
  return "its name does not show that it is text; if it is, use --input FILE --input-format txt or jsonl";
}

constexpr size_t kMostNamed = 10;

/// "part-1.bz2, part-2.xz and 3 others (unpack them first)", a text for each reason.
std::vector<std::string> describe_left_out(const std::string& folder, const std::vector<std::string>& paths) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const std::string& path : paths)
    by_reason[why_left_out(path)].push_back(fs::path(path).lexically_relative(folder).string());
  std::vector<std::string> texts;
  for (auto& [reason, names] : by_reason) {
    std::ranges::sort(names);
    const size_t others = names.size() - std::min(names.size(), kMostNamed);
    names.resize(names.size() - others);
    texts.push_back(fmt::format("{}{} ({})", fmt::join(names, ", "),
                                others == 0 ? "" : fmt::format(" and {}", count_text(others, "other")), reason));
  }
  return texts;
}

void add_folder(const std::string& folder, Forced forced, std::vector<InputFile>& files) {
  std::vector<std::string> paths, left_out;
  for (auto at = fs::recursive_directory_iterator(folder); at != fs::recursive_directory_iterator(); ++at) {
    const fs::directory_entry& entry = *at;
    const bool hidden = entry.path().filename().string().starts_with('.');
    if (hidden && entry.is_directory()) at.disable_recursion_pending();
    if (hidden || is_own_output(entry.path()) || !entry.is_regular_file()) continue;
    const bool read = forced || (kind_of(entry.path().string()) && !describes_arrow(entry.path()));
    (read ? paths : left_out).push_back(entry.path().string());
  }
  const std::vector<std::string> described = describe_left_out(folder, left_out);
  require(!paths.empty(), ErrorKind::io, "folder {} has no .txt, .jsonl, .tar or .parquet files{}{}", folder,
          described.empty() ? "" : "; not read: ", fmt::join(described, "; "));
  for (const std::string& text : described) log::warning("{}: not read: {}", folder, text);
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) add_file(path, forced, files);
}

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return paths;
}

void add_path(const std::string& path, Forced forced, std::vector<InputFile>& files) {
  if (path == kStandardInput) return files.push_back({path, forced.value_or(InputKind::json_lines), 0});
  if (fs::is_directory(path)) return add_folder(path, forced, files);
  if (fs::exists(path)) return add_file(path, forced, files);
  const std::vector<std::string> found = matches(path);
  const size_t before = files.size();
  for (const std::string& match : found) {
    if (!is_own_output(match)) add_path(match, forced, files);
  }
  require(found.empty() || files.size() > before, ErrorKind::io,
          "{} has only files that `trireme prepare` or a run wrote; name the text", path);
  if (!found.empty()) return;
  const hub::PlaceOfData named = hub::place_of_data(path);
  require(!named.files.empty(), ErrorKind::io, "input {} does not exist{}", path, named.why_not);
  for (const std::string& file : named.files) add_file(file, forced, files);
}

std::string trimmed(const std::string& name) {
  const size_t first = name.find_first_not_of(' ');
  return first == std::string::npos ? "" : name.substr(first, name.find_last_not_of(' ') - first + 1);
}

void add_argument(const std::string& argument, Forced forced, std::vector<InputFile>& files) {
  if (fs::exists(argument)) return add_path(argument, forced, files);  // a comma may be part of a name
  size_t at = 0;
  while (true) {
    const size_t comma = argument.find(',', at);
    const std::string name = trimmed(argument.substr(at, comma - at));
    require(!name.empty(), ErrorKind::usage, "--input has an empty name in \"{}\"; separate names by single commas",
            argument);
    add_path(name, forced, files);
    if (comma == std::string::npos) return;
    at = comma + 1;
  }
}

}  // namespace

std::optional<InputKind> kind_of(const std::string& path) {
  const std::string name = uncompressed_name(path);
  if (name.ends_with(".txt") || name.ends_with(".text")) return InputKind::text;
  if (name.ends_with(".jsonl") || name.ends_with(".ndjson") || name.ends_with(".json")) return InputKind::json_lines;
  if (name.ends_with(".tar")) return InputKind::archive;
  if (name.ends_with(".parquet") && compression_of(path) == Compression::none) return InputKind::parquet;
  return std::nullopt;
}

std::vector<InputFile> list_inputs(const std::vector<std::string>& arguments, std::optional<InputKind> forced,
                                   const InputEncoding& encoding) {
  std::vector<InputFile> files;
  for (const std::string& argument : arguments) add_argument(argument, forced, files);
  for (InputFile& file : files) file.encoding = encoding;
  require(!files.empty(), ErrorKind::usage, "input files are missing");
  const auto is_standard = [](const InputFile& file) { return file.path == kStandardInput; };
  require(std::count_if(files.begin(), files.end(), is_standard) <= 1, ErrorKind::usage,
          "standard input (-) can only be given once");
  return files;
}

bool is_single_text(const std::vector<InputFile>& files) {
  return files.size() == 1 && files[0].kind == InputKind::text;
}

std::optional<InputKind> input_kind_from(const std::string& name) {
  if (name == "auto") return std::nullopt;
  if (name == "txt") return InputKind::text;
  require(name == "jsonl", ErrorKind::usage, "--input-format is {}; expected auto, txt or jsonl", name);
  return InputKind::json_lines;
}

}  // namespace trireme
