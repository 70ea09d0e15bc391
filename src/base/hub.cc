#include "base/hub.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace trireme {
namespace {

/// The name on the hub that a path means; empty: none. "models/" is where init_from=gpt2 looks for gpt2.
std::string_view hub_name(std::string_view path) {
  constexpr std::string_view kFolder = "models/";
  if (path.starts_with(kFolder)) path.remove_prefix(kFolder.size());
  const auto is_part = [](std::string_view part) {
    const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; };
    return !part.empty() && part.size() <= 96 && part.front() != '.' && std::ranges::all_of(part, fits);
  };
  const size_t slash = path.find('/');
  std::error_code unreadable;
  if (slash != path.npos && std::filesystem::is_directory(path.substr(0, slash), unreadable)) return "";  // one here
  const std::string_view last = slash == path.npos ? path : path.substr(slash + 1);
  if (!is_part(last) || (slash != path.npos && !is_part(path.substr(0, slash)))) return "";
  for (const std::string_view end : {".json", ".txt", ".pt", ".bin", ".safetensors", ".tiktoken", ".model", ".bpe"}) {
    if (last.ends_with(end)) return "";  // a file of the user's own
  }
  return path;
}

}  // namespace

bool looks_like_hub_name(std::string_view path) { return !hub_name(path).empty(); }

std::string how_to_fetch(std::string_view path, std::span<const std::string_view> files) {
  const std::string_view name = hub_name(path);
  if (name.empty()) return "; nothing is downloaded";
  const std::string file = files.size() == 1 ? std::string(files[0]) : "$f";
  const std::string fetch =
      fmt::format("curl -fL --create-dirs -o {0}/{1} https://huggingface.co/{2}/resolve/main/{1}", path, file, name);
  return fmt::format("; nothing is downloaded: if {} is a name of the Hugging Face hub, fetch it with `{}`", name,
                     files.size() == 1 ? fetch : fmt::format("for f in {}; do {}; done", fmt::join(files, " "), fetch));
}

}  // namespace trireme
