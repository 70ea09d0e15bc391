#pragma once
// What shows that somebody may talk to a job: 64 random hexadecimal digits.

#include <string>

namespace trireme {

std::string random_secret();
/// In a time that does not tell how much is right.
bool same_secret(const std::string& a, const std::string& b);

}  // namespace trireme
