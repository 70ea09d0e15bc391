#pragma once
// The words of `trireme sample` as nanoGPT's sample.py and Intel's take them, in this program's own.

#include <string>
#include <vector>

namespace trireme {

/// Of sample.py: a configuration file first, --out_dir or --init_from; then its defaults hold for what is not given,
/// and its model is out_dir's or the GPT-2 that init_from names. Of Intel's: --ckpt_path, whose ckpt.pt stands for the
/// link `ckpt` that training makes of `model_path: ckpt.pt`. Other words are left as they are. Throws Error::config for
/// values of another type, Error::usage where --model is given as well.
std::vector<std::string> take_sampling_dialects(std::vector<std::string> words);

}  // namespace trireme
