#include "hub/name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/error.h"

namespace trireme::hub {
namespace {

constexpr std::string_view kModelsFolder = "models/";  // where init_from=gpt2 looks for gpt2
constexpr size_t kMostPartBytes = 96;                  // the hub's own limit
constexpr size_t kMostPathBytes = 1024, kMostFileNameBytes = 255;

bool is_part(std::string_view part) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; };
  const auto is_edge = [](char c) { return c == '-' || c == '.'; };
  return !part.empty() && part.size() <= kMostPartBytes && !is_edge(part.front()) && !is_edge(part.back()) &&
         std::ranges::all_of(part, fits) && part.find("--") == part.npos && part.find("..") == part.npos;
}

bool is_name(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash == name.npos) return is_part(name);
  return is_part(name.substr(0, slash)) && is_part(name.substr(slash + 1));
}

}  // namespace

const char* name_of(Kind kind) { return kind == Kind::model ? "model" : "data set"; }

std::string Repository::folder() const {
  std::string folder = kind == Kind::model ? "models--" : "datasets--";
  for (const char c : name) c == '/' ? folder += "--" : folder += c;
  return folder;
}

std::string Repository::path() const { return (kind == Kind::model ? "" : "datasets/") + name; }

Repository checked_repository(Kind kind, std::string_view name) {
  require(is_name(name), ErrorKind::usage,
          "\"{}\" is not a name on the Hugging Face hub: expected NAME or OWNER/NAME of letters, digits, '-', '_' and "
          "'.', as in EleutherAI/pythia-160m",
          name);
  return {kind, std::string(name)};
}

std::string name_in(std::string_view path) {
  if (path.starts_with(kModelsFolder)) path.remove_prefix(kModelsFolder.size());
  return std::string(path.substr(0, path.find('@')));
}

std::string revision_in(std::string_view path) {
  const size_t at = path.find('@');
  if (at == path.npos) return kMainRevision;
  require_revision(path.substr(at + 1));
  return std::string(path.substr(at + 1));
}

bool looks_like_name(std::string_view path) {
  const std::string name = name_in(path);
  const size_t slash = name.find('/');
  std::error_code unreadable;
  if (slash != name.npos && std::filesystem::is_directory(name.substr(0, slash), unreadable)) return false;
  if (!is_name(name)) return false;
  for (const std::string_view end :
       {".json",    ".jsonl", ".txt", ".pt",  ".bin", ".safetensors", ".tiktoken", ".model",
        ".bpe",     ".ckpt",  ".pth", ".pkl", ".npy", ".idx",         ".yaml",     ".yml",
        ".parquet", ".tar",   ".gz",  ".zst", ".tgz", ".tzst",        ".csv",      ".tsv"}) {
    if (name.ends_with(end)) return false;  // a file of the user's own
  }
  return true;
}

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > kMostPathBytes) return false;
  if (std::ranges::any_of(path, [](unsigned char c) { return c < 0x20 || c == 0x7F || c == '\\'; })) return false;
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.size() > kMostFileNameBytes) return false;
    if (slash == path.npos) return true;
    path.remove_prefix(slash + 1);
  }
}

void require_revision(std::string_view revision) {
  require(is_safe_path(revision) && revision.size() <= 255, ErrorKind::usage,
          "\"{}\" is not a revision: expected a branch, a tag or a commit", revision);
}

bool is_commit(std::string_view text) {
  return text.size() == 40 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::string url_encoded(std::string_view text, bool whole) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.' || c == '~' || (c == '/' && !whole);
    plain ? out += c : out += fmt::format("%{:02X}", byte);
  }
  return out;
}

}  // namespace trireme::hub
