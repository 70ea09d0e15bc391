#pragma once
// Several files or data sets, with how much of each is trained on.

#include <optional>
#include <string>
#include <vector>

#include "data/chat/training_rows.h"

namespace trireme {

struct DataPart {
  std::string name;             ///< a file, a folder, or a data set of the hub
  std::optional<size_t> count;  ///< so many of its conversations
  double weight = 1;            ///< else each is there so many times; a part of one: a share of them
};

/// Of "a.jsonl, b.jsonl=1000, c.jsonl=0.5": whole numbers are counts, numbers with a point are weights. A text that is
/// the path of a file or folder is that path. Throws Error::config naming the option.
std::vector<DataPart> data_parts(const std::string& option, const std::string& text);

/// The conversations of a part, of which the seed chooses, in their order. each: conversations that stay together.
chat::CodedIds taken_of(chat::CodedIds all, const DataPart& part, uint64_t seed, size_t each);

/// The data files of a folder, by name: those that read_rows() reads. Throws Error::io without any.
std::vector<std::string> files_in_folder(const std::string& folder);

}  // namespace trireme
