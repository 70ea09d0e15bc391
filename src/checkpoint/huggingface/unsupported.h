#pragma once
// Why models of other types than the supported ones cannot be trained here.

#include <string>
#include <string_view>

#include "base/json.h"

namespace trireme {

/// "it is a mixture of experts": what its type, or a field of its config.json (null: unknown), shows; empty: nothing.
std::string why_unsupported(std::string_view model_type, const Json& config);

}  // namespace trireme
