#pragma once
// Names of the Hugging Face hub, and checks of outside names that become paths.

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::hub {

enum class Kind : uint8_t { model, dataset };

/// "model" or "data set", for messages.
const char* name_of(Kind kind);

/// One repository of the hub.
struct Repository {
  Kind kind = Kind::model;
  std::string name;  ///< "gpt2", "EleutherAI/pythia-160m"

  /// Folder in the cache: "models--EleutherAI--pythia-160m".
  std::string folder() const;
  /// After the endpoint: "" or "datasets/", then the name.
  std::string path() const;
  bool operator==(const Repository&) const = default;
};

/// Throws Error::usage unless it is a name of the hub: one or two parts of letters, digits, '-', '_' and '.', which
/// neither begin nor end with '-' or '.' nor contain "--" or "..".
Repository checked_repository(Kind kind, std::string_view name);

/// Whether the path can be a name on the hub: "gpt2", "facebook/opt-125m", also after "models/" and with "@REVISION" at
/// the end. Not if its first part is a local folder or it ends like a readable file.
bool looks_like_name(std::string_view path);
/// The name in such a path: without "models/" and "@REVISION".
std::string name_in(std::string_view path);
/// The part after the '@', as in huggingface_hub's hf://NAME@REVISION; "main" if missing. Throws Error::usage as
/// require_revision().
std::string revision_in(std::string_view path);
inline constexpr const char* kMainRevision = "main";

/// Whether a name from the hub's list of files is a safe path below a folder: relative, no part empty, "." or "..", no
/// control characters or backslashes.
bool is_safe_path(std::string_view path);
/// Requires a branch, tag or commit by the same rule, at most 255 bytes. Throws Error::usage.
void require_revision(std::string_view revision);
/// Forty lower-case hexadecimal digits.
bool is_commit(std::string_view text);

/// Escapes a part of a URL's path; '/' stays unless `whole`, which makes a single part.
std::string url_encoded(std::string_view text, bool whole = false);

}  // namespace trireme::hub
