#pragma once
// Translates the arguments of nanoGPT's and Intel's sample.py into those of `trireme sample`.

#include <string>
#include <vector>

namespace trireme {

/// nanoGPT's: a configuration file as the first word, --out_dir or --init_from; then its defaults apply, and the model
/// is that of out_dir or the GPT-2 that init_from names. Intel's: --ckpt_path, whose ckpt.pt means the link `ckpt` that
/// training creates for `model_path: ckpt.pt`. Other words stay unchanged. Throws Error::config for values of another
/// type, Error::usage if --model is also given.
std::vector<std::string> take_sampling_dialects(std::vector<std::string> words);

}  // namespace trireme
