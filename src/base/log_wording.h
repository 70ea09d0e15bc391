#pragma once
// What log messages call things: a command may have other names for options than the code below it.

#include <functional>
#include <string>
#include <string_view>

namespace trireme::log {

/// Every message is put through `wording` before it is shown. Called once, before other threads log.
void set_wording(std::function<std::string(std::string_view)> wording);

}  // namespace trireme::log
