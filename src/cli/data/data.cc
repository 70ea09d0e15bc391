// trireme data inspect|verify|merge|index: work on token files between `prepare` and training.

#include <fmt/core.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/data/tokenizer_flags.h"
#include "cli/flags.h"
#include "data/file_signature.h"
#include "data/indexed_dataset.h"
#include "data/inspection.h"
#include "data/neox_index.h"
#include "data/prepare/prepare_megatron.h"
#include "data/prepare/prepare_outputs.h"

namespace trireme {
namespace {

struct IndexFlags {
  std::string prefix, split, output;
  NeoxOrder order{.name = "train", .samples = 0, .sequence = 0, .seed = 1234};
};

void add_index(Flags& app, IndexFlags& flags) {
  Flags& command = app.add_action("index", "write NeoX's order of samples of an indexed dataset: three .npy files");
  command.add("--prefix", flags.prefix, "dataset: the path of its .bin and .idx, with or without the extension")
      .required();
  command.add("--name", flags.order.name, "train, valid or test (train_0 and so on for blended data)").show_default();
  command.add("--samples", flags.order.samples, "number of samples needed; epochs are added until there are enough")
      .required()
      .positive();
  command.add("--seq", flags.order.sequence, "ids per sample, without its last target").required().positive();
  command.add("--seed", flags.order.seed, "seed of both shuffles").show_default();
  command.add("--split", flags.split,
              "shares of train, valid and test, like \"969, 30, 1\": only the documents of --name are used "
              "(default: all documents)");
  command.add("--output", flags.output, "folder for the files (default: that of the dataset)");
}

/// The part of the split for a name like valid or valid_0.
size_t part_of(const std::string& name) {
  const std::string base = name.substr(0, name.find('_'));
  if (base == "train") return 0;
  if (base == "valid") return 1;
  require(base == "test", ErrorKind::usage, "--name is {}; with --split, expected train, valid or test", name);
  return 2;
}

/// Prefix of an indexed dataset, given as the prefix or as one of its files.
std::string required_prefix(const std::string& path) {
  const std::string prefix = indexed_prefix(path);
  if (prefix.empty() && std::filesystem::is_regular_file(path)) {
    const MappedFile file(path);
    if (const auto known = signature_of(file.text(), path))
      fail(ErrorKind::data, "{} is {}, not an indexed dataset: {}", path, known->what, known->todo);
  }
  require(!prefix.empty(), ErrorKind::io,
          "{} is not an indexed dataset: its .idx file does not exist; `trireme prepare --format megatron` makes "
          "one",
          path);
  return prefix;
}

int index(const IndexFlags& flags) {
  const std::string prefix = required_prefix(flags.prefix);
  const IndexedDataset dataset(prefix);
  uint64_t first = 0, last = dataset.sequences();
  if (!flags.split.empty()) {
    const PartBorders borders = part_borders(flags.split, dataset.sequences());
    const size_t part = part_of(flags.order.name);
    first = borders[part];
    last = borders[part + 1];
  }
  if (!flags.output.empty()) std::filesystem::create_directories(flags.output);
  const std::string stem = neox_index_stem(prefix, flags.output, flags.order);
  build_neox_index(stem, dataset.lengths(), first, last, flags.order);
  record_neox_index(stem, dataset.lengths(), first, last);
  const NeoxIndex made(stem);
  log::info("{}_*_idx.npy: {} of {} ids from documents {} to {}, {}", stem, count_text(made.samples(), "sample"),
            flags.order.sequence, first, last, count_text(made.places() / (last - first), "epoch"));
  return 0;
}

struct InspectFlags {
  std::string path, tokenizer, end_of_text;
  TokenizerFlags load;
  size_t ids = 40;
};

void add_inspect(Flags& app, InspectFlags& flags) {
  Flags& command = app.add_action("inspect", "show the contents of a token file or an indexed dataset");
  command.add("FILE", flags.path, "FILE.bin, or an indexed dataset: its prefix, .bin or .idx").required();
  command.add("--tokenizer", flags.tokenizer, "tokenizer that decodes it (default: tokenizer.json beside the file)");
  add_tokenizer_flags(command, flags.load);
  command.add("--end-of-text", flags.end_of_text, "token that ends documents (default: the tokenizer's own)");
  command.add("--ids", flags.ids, "number of ids shown from the beginning and from the end").show_default();
}

void print_lengths(const LengthHistogram& lengths) {
  fmt::print("documents   {}, of {} to {} ids, {:.1f} on average\n", lengths.documents(), lengths.shortest(),
             lengths.longest(), lengths.mean());
  constexpr uint64_t kWidest = 40;
  const uint64_t most = *std::max_element(lengths.counts().begin(), lengths.counts().end());
  for (size_t k = 0; k < lengths.counts().size(); ++k) {
    const uint64_t count = lengths.counts()[k], first = k == 0 ? 0 : uint64_t{1} << (k - 1);
    if (count == 0) continue;
    const uint64_t last = k == 0 ? 0 : 2 * first - 1;
    fmt::print("{:>12} to {:<12} {:>12}  {}\n", first, last, count,
               std::string(static_cast<size_t>((count * kWidest + most - 1) / most), '#'));
  }
}

int inspect_file(const InspectFlags& flags) {
  const std::string path = flags.tokenizer.empty() ? tokenizer_beside(flags.path) : flags.tokenizer;
  std::unique_ptr<Tokenizer> tokenizer;
  if (!path.empty()) tokenizer = load_tokenizer(path, load_options(flags.load));
  require(tokenizer || flags.end_of_text.empty(), ErrorKind::usage,
          "--end-of-text needs a --tokenizer with this token");
  std::optional<TokenId> end;
  if (!flags.end_of_text.empty())
    end = end_of_text_id(*tokenizer, flags.end_of_text, path, "to end documents");
  else if (tokenizer)
    end = tokenizer->end_of_text();
  const Inspection found = inspect(flags.path, end, flags.ids);
  fmt::print("file        {}\nformat      {}\ntokens      {}\n", found.path, found.format, found.tokens);
  if (found.sequences > 0) fmt::print("sequences   {}\n", found.sequences);
  if (found.sidecar)
    fmt::print("sidecar     {} documents, vocabulary {}, tokenizer {}, {} checksums, {}\n", found.sidecar->documents,
               found.sidecar->vocabulary, found.sidecar->tokenizer_hash, found.sidecar->block_hashes.size(),
               found.sidecar->split);
  else
    fmt::print("sidecar     none\n");
  if (found.lengths.documents() > 0) print_lengths(found.lengths);
  const auto show = [&](const char* name, const std::vector<TokenId>& ids) {
    fmt::print("{:<11} [{}]\n", name, fmt::join(ids, ", "));
    if (tokenizer) fmt::print("            {}\n", dump_json(Json(tokenizer->decode(ids))));
  };
  show("head", found.head);
  show("tail", found.tail);
  return 0;
}

/// Token files of a folder: those with a sidecar or an index.
std::vector<std::string> token_files(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return {path};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    const std::string file = entry.path().string();
    if (file.ends_with(".bin")) files.push_back(file);
  }
  require(!files.empty(), ErrorKind::io, "{} has no .bin files", path);
  std::sort(files.begin(), files.end());
  return files;
}

/// Exit code 1 if one is bad.
int verify(const std::vector<std::string>& paths) {
  int code = 0;
  for (const std::string& path : paths) {
    for (const std::string& file : token_files(path)) {
      try {
        fmt::print("{}: good: {}\n", file, verify_tokens(file));
      } catch (const Error& e) {
        fmt::print("{}: bad: {}\n", file, e.what());
        code = exit_code(e.kind());
      }
    }
  }
  return code;
}

struct MergeFlags {
  std::vector<std::string> inputs;
  std::string output;
};

int merge(const MergeFlags& flags) {
  std::vector<std::string> prefixes;
  for (const std::string& input : flags.inputs) prefixes.push_back(required_prefix(input));
  const MergeReport report = merge_indexed(prefixes, flags.output);
  log::info("{}: {}, {} of {}", flags.output, count_text(report.documents, "document"),
            count_text(report.tokens, "token"), count_text(prefixes.size(), "dataset"));
  return 0;
}

}  // namespace

int run_data(CommandLine line) {
  Flags app(std::move(line), "trireme data", "Checks, shows, merges and indexes token files.");
  IndexFlags index_flags;
  InspectFlags inspect_flags;
  MergeFlags merge_flags;
  std::vector<std::string> to_verify;
  add_inspect(app, inspect_flags);
  Flags& verifying = app.add_action("verify", "read and check every byte; exit code 1 if one is wrong");
  verifying.add("PATH", to_verify, "token files, indexed datasets, or folders of them").required();
  Flags& merging = app.add_action("merge", "merge indexed datasets");
  merging.add("--input", merge_flags.inputs, "datasets in order, separated by commas or one after the other")
      .required()
      .separated_by(',');
  merging.add("--output", merge_flags.output, "prefix of the merged dataset").required();
  add_index(app, index_flags);
  if (const auto code = app.parse()) return *code;
  if (verifying.chosen()) return verify(to_verify);
  if (merging.chosen()) return merge(merge_flags);
  return index_flags.prefix.empty() ? inspect_file(inspect_flags) : index(index_flags);
}

}  // namespace trireme
