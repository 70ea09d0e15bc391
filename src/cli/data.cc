// trireme data index: what is done with token files between preparing them and training.

#include <fmt/core.h>

#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "data/document_parts.h"
#include "data/indexed_dataset.h"
#include "data/neox_index.h"

namespace trireme {
namespace {

struct IndexFlags {
  std::string prefix, split, output;
  NeoxOrder order{.name = "train", .samples = 0, .sequence = 0, .seed = 1234};
};

void add_index(Flags& app, IndexFlags& flags) {
  Flags& command = app.add_action("index", "NeoX's order of samples over an indexed dataset: three .npy files");
  command.add("--prefix", flags.prefix, "dataset: the path of its .bin and .idx without that ending").required();
  command.add("--name", flags.order.name, "train, valid or test (train_0 and so on for blended data)").show_default();
  command.add("--samples", flags.order.samples, "how many samples are needed; epochs are added until they are")
      .required()
      .positive();
  command.add("--seq", flags.order.sequence, "ids of a sample, its last target not counted").required().positive();
  command.add("--seed", flags.order.seed, "seed of both shuffles").show_default();
  command.add("--split", flags.split,
              "shares of train, valid and test, like \"969, 30, 1\": only the documents of --name are ordered "
              "(default: all documents)");
  command.add("--output", flags.output, "folder for the files (default: that of the dataset)");
}

/// Which of the split's parts a name like valid or valid_0 means.
size_t part_of(const std::string& name) {
  const std::string base = name.substr(0, name.find('_'));
  if (base == "train") return 0;
  if (base == "valid") return 1;
  require(base == "test", ErrorKind::usage, "--name is {}; with --split it is train, valid or test", name);
  return 2;
}

int index(const IndexFlags& flags) {
  const IndexedDataset dataset(flags.prefix);
  uint64_t first = 0, last = dataset.sequences();
  if (!flags.split.empty()) {
    const PartBorders borders = part_borders(flags.split, dataset.sequences());
    const size_t part = part_of(flags.order.name);
    first = borders[part];
    last = borders[part + 1];
  }
  if (!flags.output.empty()) std::filesystem::create_directories(flags.output);
  const std::string stem = neox_index_stem(flags.prefix, flags.output, flags.order);
  build_neox_index(stem, dataset.lengths(), first, last, flags.order);
  const NeoxIndex made(stem);
  log::info("{}_*_idx.npy: {} samples of {} ids from documents {} to {}, {} epochs", stem, made.samples(),
            flags.order.sequence, first, last, made.places() / (last - first));
  return 0;
}

}  // namespace

int run_data(std::vector<std::string> arguments) {
  Flags app("trireme data", "Looks after token files.");
  IndexFlags index_flags;
  add_index(app, index_flags);
  if (const auto code = app.parse(std::move(arguments))) return *code;
  return index(index_flags);
}

}  // namespace trireme
