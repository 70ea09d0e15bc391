#pragma once
#include <string>
#include <vector>

namespace trireme {

/// `trireme bench tokenize`: MB/s of encoding, or of training a vocabulary, beside other libraries in the same run.
int bench_tokenize_command(std::vector<std::string> arguments);

}  // namespace trireme
