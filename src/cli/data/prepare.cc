#include "data/prepare/prepare.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/data/tokenizer_flags.h"
#include "cli/flags.h"
#include "cli/threads.h"
#include "data/prepare/prepare_megatron.h"

namespace trireme {
namespace {

void print_speed(uint64_t bytes, uint64_t documents, double seconds, double load_seconds) {
  const double spent = std::max(seconds, 1e-9);
  const std::string of_documents =
      documents > 1 ? fmt::format(", {:.0f} documents/s", static_cast<double>(documents) / spent) : "";
  log::info("{} of text in {:.2f} s: {}/s{} (tokenizer loaded in {:.2f} s)", human_bytes(bytes), seconds,
            human_bytes(static_cast<uint64_t>(static_cast<double>(bytes) / spent)), of_documents, load_seconds);
}

void run_nanogpt(const PrepareOptions& options) {
  const PrepareReport report = prepare(options);
  if (report.documents == 1) {
    log::info("{}: {} in train.bin, {} in val.bin", options.output, count_text(report.train_tokens, "token"),
              report.val_tokens);
  } else {
    log::info("{}: {}, {} in train.bin ({}), {} in val.bin ({})", options.output,
              count_text(report.documents, "document"), count_text(report.train_tokens, "token"),
              count_text(report.train_documents, "document"), report.val_tokens, report.val_documents);
  }
  print_speed(report.input_bytes, report.documents, report.seconds, report.load_seconds);
}

void run_megatron(const PrepareOptions& common, const std::vector<std::string>& keys, bool append_eod) {
  require(common.tokenizer != "char", ErrorKind::usage, "--tokenizer char supports only nanogpt files");
  MegatronOptions options;
  options.inputs = common.inputs;
  options.input_kind = common.input_kind;
  options.encoding = common.encoding;
  options.most_documents = common.most_documents;
  options.tokenizer = common.tokenizer;
  options.load = common.load;
  options.prefix = common.output;
  options.json_keys = keys;
  options.append_eod = append_eod;
  options.end_of_text = common.end_of_text;
  options.most_bytes = common.most_bytes;
  options.strict = common.strict;
  options.threads = common.threads;
  options.stop = common.stop;
  const MegatronReport report = prepare_megatron(options);
  log::info("{}_{}_document: {}{}, {}", options.prefix, fmt::join(keys, "|"), count_text(report.documents, "document"),
            keys.size() > 1 ? " each" : "", count_text(report.tokens, "token"));
  print_speed(report.input_bytes, report.documents, report.seconds, report.load_seconds);
}

/// How the published recipes make their data, from the user's files.
struct RecipeFlags {
  std::string name;
  bool full = false;
};

constexpr uint64_t kOpenWebTextSample = 10'000;  // documents

/// The registry of NeoX's prepare_data.py; a data set is in the folder of its name, pile_subset in pile_00.
constexpr const char* kNeoxDataSets[] = {"enron",      "pile",         "pile_subset",    "pile_00",
                                         "github",     "arxiv",        "europarl",       "freelaw",
                                         "nih",        "pubmed",       "books1",         "books3",
                                         "hackernews", "openwebtext2", "stackexchange",  "ubuntu_irc",
                                         "c4",         "enwik8",       "c4_openwebtext", "youtube_subtitles"};

/// A given flag that would have no effect is refused.
void refuse(const Flags& app, std::initializer_list<const char*> flags, const std::string& reason) {
  for (const char* flag : flags) require(app.count(flag) == 0, ErrorKind::usage, "{} {}", flag, reason);
}

/// The part of the input for validation: of the characters of a single text, otherwise of the documents.
void check_split(const Flags& app, PrepareOptions& options) {
  const double val = options.split.val_fraction;
  require(val >= 0 && val < 1, ErrorKind::usage, "--val-fraction is {}, expected a number from 0 to below 1", val);
  const std::vector<InputFile> files = list_inputs(options.inputs, options.input_kind, options.encoding);
  if (!is_single_text(files))
    return refuse(app, {"--train-fraction"}, "is for a single .txt file; for documents, use --val-fraction");
  if (app.count("--append-eod") > 0)
    log::warning("--append-eod has no effect: {} is a single text without an end-of-text id", files[0].path);
  refuse(
      app, {"--order", "--split-seed", "--end-of-text", "--recipe"},
      fmt::format("is for several documents, but {} is a single text: its last characters are the validation part "
                  "(--val-fraction), without an end-of-text id; remove the flag, or give .jsonl or several .txt files",
                  files[0].path));
  refuse(app, {"--json-keys"}, fmt::format("names fields of jsonl, but {} is plain text", files[0].path));
  if (app.count("--val-fraction") == 0) return;
  refuse(app, {"--train-fraction"}, "and --val-fraction both set the split of a single .txt file; remove one of them");
  options.train_fraction = 1 - val;
}

/// The format of the recipe; an error if the user gave another one.
void check_recipe_format(const Flags& app, const std::string& recipe, const std::string& wanted, std::string& format) {
  require(app.count("--format") == 0 || format == wanted, ErrorKind::usage,
          "--recipe {} makes {} files; remove --format {}", recipe, wanted, format);
  format = wanted;
}

void apply_recipe(const Flags& app, const RecipeFlags& recipe, PrepareOptions& options, std::string& format,
                  bool& append_eod) {
  require(!recipe.full || recipe.name == "openwebtext", ErrorKind::usage, "--full needs --recipe openwebtext");
  if (recipe.name.empty()) return;
  if (recipe.name == "openwebtext") {
    check_recipe_format(app, recipe.name, "nanogpt", format);
    require(app.count("--order") == 0 || options.split.order == DocumentOrder::openwebtext, ErrorKind::usage,
            "--recipe openwebtext has its own order; remove --order input");
    options.split.order = DocumentOrder::openwebtext;
    if (!recipe.full && options.most_documents == 0) {
      options.most_documents = kOpenWebTextSample;
      log::info("using only the first {} documents; --full uses all", kOpenWebTextSample);
    }
    return;
  }
  require(std::find(std::begin(kNeoxDataSets), std::end(kNeoxDataSets), recipe.name) != std::end(kNeoxDataSets),
          ErrorKind::usage, "unknown --recipe {}; known: openwebtext, {}", recipe.name, fmt::join(kNeoxDataSets, ", "));
  check_recipe_format(app, recipe.name, "megatron", format);
  append_eod = true;
  const std::string name = recipe.name == "pile_subset" ? "pile_00" : recipe.name;
  const std::filesystem::path folder = std::filesystem::path(options.output) / name;
  if (options.inputs.empty()) {
    require(std::filesystem::is_directory(folder), ErrorKind::io,
            "{} does not exist; put the files of {} there, or name them with --input (they are not downloaded)",
            folder.string(), recipe.name);
    options.inputs = {folder.string()};
  }
  options.output = (folder / name).string();
}

}  // namespace

int run_prepare(CommandLine line) {
  PrepareOptions options;
  options.threads = default_threads();
  Flags app(std::move(line), "trireme prepare",
            "Turns text into token files for training: train.bin, val.bin, their sidecars and tokenizer.json.");
  app.add("--input", options.inputs,
          "text: .txt, .jsonl and .parquet files, .tar of them, folders, globs, names of data sets on the Hugging Face "
          "hub; several separated by commas; also .gz and .zst; - is standard input");
  std::string input_format = "auto";
  app.add("--input-format", input_format, "format of the files; auto: from the name, standard input is jsonl")
      .one_of({"auto", "txt", "jsonl"})
      .show_default();
  std::string encoding = "auto";
  app.add("--encoding", encoding, kEncodingHelp).show_default();
  RecipeFlags recipe;
  app.add("--recipe", recipe.name,
          "openwebtext: split and order of that recipe; a data set of NeoX (pile, pile_subset, enron, ...): megatron "
          "files in OUTPUT/NAME, where the input is also looked for");
  app.add_switch("--full", recipe.full, "openwebtext: use all documents, not only the first 10,000");
  app.add("--tokenizer", options.tokenizer,
          "tokenizer.json, vocab.txt, a tiktoken file, a folder with one of these or with vocabulary and merges, or "
          "`char`: one id per character of the input")
      .required();
  TokenizerFlags load;
  add_tokenizer_flags(app, load);
  app.add("--output", options.output, "folder for the results; for megatron: prefix of the file names").required();
  std::string format = "nanogpt";
  app.add("--format", format, "train.bin and val.bin, or PREFIX_KEY_document.bin and .idx")
      .one_of({"nanogpt", "megatron"})
      .show_default();
  std::vector<std::string> keys{"text"};
  app.add("--json-keys", keys, "field of a jsonl line with the text; megatron: one dataset per field")
      .separated_by(',')
      .show_default();
  bool append_eod = false;
  app.add_switch("--append-eod", append_eod, "write the end-of-text token after each document (nanogpt always does)");
  app.add("--end-of-text", options.end_of_text, "token written after each document; default: that of the tokenizer");
  app.add("--val-fraction", options.split.val_fraction,
          "fraction of the documents, or of the characters of a single .txt, for val.bin; 0: none")
      .show_default();
  app.add("--split-seed", options.split.seed, "seed of the choice of validation documents").show_default();
  std::string order = "input";
  app.add("--order", order, "documents in input order, or shuffled as the published OpenWebText files are")
      .one_of({"input", "openwebtext"})
      .show_default();
  app.add("--train-fraction", options.train_fraction,
          "fraction of the characters of a single .txt for training, the same as 1 - --val-fraction")
      .show_default();
  app.add("--max-documents,--num-docs", options.most_documents, "use only the first N documents; 0: all")
      .show_default();
  uint64_t max_document = kMostDocumentBytes >> 20;
  app.add("--max-document", max_document,
          "maximum size of one document in MiB: a line of jsonl, or text that the tokenizer cannot split")
      .in_range(1, kMostDocumentMebibytes)
      .show_default();
  app.add_switch("--strict", options.strict, "stop at the first malformed line instead of skipping and counting them");
  app.add("--threads", options.threads, "worker threads").in_range(1, 1024).show_default();
  if (const auto code = app.parse()) return *code;
  options.split.order = order == "input" ? DocumentOrder::input : DocumentOrder::openwebtext;
  options.input_kind = input_kind_from(input_format);
  options.encoding = input_encoding_from(encoding);
  options.most_bytes = max_document << 20;
  options.load = load_options(load);
  apply_recipe(app, recipe, options, format, append_eod);
  require(!options.inputs.empty(), ErrorKind::usage, "--input is missing; give the files with the text");
  options.stop = &stop::watch();
  if (format == "megatron") {
    refuse(app, {"--val-fraction", "--split-seed", "--order", "--train-fraction"},
           "is for --format nanogpt; megatron data is split during training");
    if (!append_eod) refuse(app, {"--end-of-text"}, "needs --append-eod, which writes it after each document");
    for (const std::string& key : keys)
      require(std::count(keys.begin(), keys.end(), key) == 1, ErrorKind::usage, "--json-keys names \"{}\" twice", key);
    run_megatron(options, keys, append_eod);
    return 0;
  }
  require(keys.size() == 1, ErrorKind::usage, "--format nanogpt supports one --json-keys field, found {}", keys.size());
  options.json_key = keys[0];
  check_split(app, options);
  run_nanogpt(options);
  return 0;
}

}  // namespace trireme
