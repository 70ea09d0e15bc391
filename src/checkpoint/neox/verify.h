#pragma once
// Verifies a GPT-NeoX checkpoint. Its files have no checksums except those of the ZIP members.

#include <string>
#include <vector>

namespace trireme {

/// Reads every byte of a step's folder (neox_files.h); one line per fault: what opening it finds (neox_checkpoint.h),
/// and each member whose bytes do not match its CRC-32 (files of torch before 1.6 have none). Empty: valid.
std::vector<std::string> verify_neox_checkpoint(const std::string& step_folder);

}  // namespace trireme
