#pragma once
// Authorizes a client of a job: 64 random hexadecimal digits.

#include <string>

namespace trireme {

std::string random_secret();
/// Takes the same time for every difference.
bool same_secret(const std::string& a, const std::string& b);

}  // namespace trireme
