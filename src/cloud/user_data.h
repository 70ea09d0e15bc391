#pragma once
// A cloud-init document in the form that EC2 accepts.

#include <string>
#include <string_view>

namespace trireme::cloud {

/// Base64 of the gzip of the text: EC2 accepts at most 16 KB, and cloud-init unpacks it automatically. The same text
/// gives the same bytes.
std::string packed_user_data(std::string_view text);

}  // namespace trireme::cloud
