#pragma once
// Names of the Hugging Face hub. Nothing is downloaded here: an error about a folder that is not there says how to.

#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// Whether the path could be meant as a model's name on the hub: "gpt2", "facebook/opt-125m", also behind "models/".
bool looks_like_hub_name(std::string_view path);

/// How the files of that name come into the folder of that path, as a sentence behind a "; " with the shell line to
/// type; without the line where the path is no such name.
std::string how_to_fetch(std::string_view path, std::span<const std::string_view> files);

}  // namespace trireme
