#pragma once
// Whether a checkpoint of GPT-NeoX is whole. Its files have no checksum but that which ZIP keeps of each member.

#include <string>
#include <vector>

namespace trireme {

/// Reads every byte of a step's folder (neox_files.h); one line per fault: what opening it finds (neox_checkpoint.h),
/// and each member of a file whose bytes do not have its CRC-32. Files of torch before 1.6 have none. Empty: it is
/// good.
std::vector<std::string> verify_neox_checkpoint(const std::string& step_folder);

}  // namespace trireme
