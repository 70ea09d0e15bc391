#pragma once
// Names of the Hugging Face hub, and which of the names that come from outside may become paths.

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

  /// Of the cache: "models--EleutherAI--pythia-160m".
  std::string folder() const;
  /// Behind the endpoint: "" and "datasets/" before the name.
  std::string path() const;
  bool operator==(const Repository&) const = default;
};

/// Throws Error::usage for what is no name of the hub: one or two parts of letters, digits, '-', '_' and '.', which
/// neither begin nor end with '-' or '.' nor hold "--" or "..".
Repository checked_repository(Kind kind, std::string_view name);

/// Whether the path could be meant as a name on the hub: "gpt2", "facebook/opt-125m", also behind "models/", and with
/// "@REVISION" behind it. One whose first part is a folder here, or which ends like a file that is read, is not.
bool looks_like_name(std::string_view path);
/// The name that such a path means: without "models/" and "@REVISION".
std::string name_in(std::string_view path);
/// What stands behind the '@', as huggingface_hub writes it in hf://NAME@REVISION; "main" where there is none. Throws
/// Error::usage as require_revision().
std::string revision_in(std::string_view path);
inline constexpr const char* kMainRevision = "main";

/// Whether a name from the hub's list of files can be a path below a folder: relative, no part empty, "." or "..", no
/// control characters or backslashes.
bool is_safe_path(std::string_view path);
/// Branch, tag or commit; the same rule, at most 255 bytes. Throws Error::usage.
void require_revision(std::string_view revision);
/// Forty hexadecimal digits in small letters.
bool is_commit(std::string_view text);

/// As part of a URL's path; '/' stays unless `whole`, which makes one part of all of it.
std::string url_encoded(std::string_view text, bool whole = false);

}  // namespace trireme::hub
