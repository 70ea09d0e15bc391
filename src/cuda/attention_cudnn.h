#pragma once
#include <memory>
#include <string>

#include "cuda/attention_library.h"

namespace trireme {

/// Attention by cuDNN, found at run time, on the calling thread's GPU. nullptr, and a line in the log that says why, if
/// this build was made without cuDNN's frontend, or cuDNN or the CUDA runtime that it uses is not found.
std::unique_ptr<AttentionLibrary> make_cudnn_attention();

/// For checks without a GPU: builds the call's graph for a GPU of this description (JSON of cuDNN's device properties)
/// as far as that goes. "" if it is complete, else what cuDNN says. Throws Error::usage if cuDNN is not found.
std::string build_without_gpu(const AttentionCall&, int capability, const std::string& properties);

}  // namespace trireme
