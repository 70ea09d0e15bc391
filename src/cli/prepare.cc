#include "data/prepare.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/stop_signals.h"
#include "cli/tokenizer_flags.h"
#include "data/prepare_megatron.h"
#include "data/progress.h"

namespace trireme {
namespace {

void print_speed(uint64_t bytes, uint64_t documents, double seconds, double load_seconds) {
  const double spent = std::max(seconds, 1e-9);
  log::info("{} of text in {:.2f} s: {}/s, {:.0f} documents/s (tokenizer loaded in {:.2f} s)", human_bytes(bytes),
            seconds, human_bytes(static_cast<uint64_t>(static_cast<double>(bytes) / spent)),
            static_cast<double>(documents) / spent, load_seconds);
}

void run_nanogpt(const PrepareOptions& options) {
  const PrepareReport report = prepare(options);
  log::info("{}: {} documents, {} tokens in train.bin ({} documents), {} in val.bin ({})", options.output,
            report.documents, report.train_tokens, report.train_documents, report.val_tokens, report.val_documents);
  print_speed(report.input_bytes, report.documents, report.seconds, report.load_seconds);
}

void run_megatron(const PrepareOptions& common, const std::vector<std::string>& keys, bool append_eod) {
  require(common.tokenizer != "char", ErrorKind::usage, "--tokenizer char makes nanogpt files only");
  MegatronOptions options;
  options.inputs = common.inputs;
  options.tokenizer = common.tokenizer;
  options.load = common.load;
  options.prefix = common.output;
  options.json_keys = keys;
  options.append_eod = append_eod;
  options.end_of_text = common.end_of_text;
  options.strict = common.strict;
  options.threads = common.threads;
  options.stop = common.stop;
  const MegatronReport report = prepare_megatron(options);
  log::info("{}_*_document: {} documents, {} tokens", options.prefix, report.documents, report.tokens);
  print_speed(report.input_bytes, report.documents, report.seconds, report.load_seconds);
}

}  // namespace

int run_prepare(std::vector<std::string> arguments) {
  PrepareOptions options;
  options.threads = default_threads();
  Flags app("trireme prepare",
            "Turns text into token files for training: train.bin, val.bin, their sidecars and tokenizer.json.");
  app.add("--input", options.inputs,
          "text: .txt and .jsonl files, folders, globs, several with commas between; also .gz and .zst")
      .required();
  app.add("--tokenizer", options.tokenizer,
          "tokenizer.json, vocab.txt, a tiktoken file, a folder with one or with vocabulary and merges, or `char`: "
          "one id per character of the input")
      .required();
  TokenizerFlags load;
  add_tokenizer_flags(app, load);
  app.add("--output", options.output, "folder for the results; for megatron the prefix of their names").required();
  std::string format = "nanogpt";
  app.add("--format", format, "train.bin and val.bin, or PREFIX_KEY_document.bin and .idx")
      .one_of({"nanogpt", "megatron"})
      .show_default();
  std::vector<std::string> keys{"text"};
  app.add("--json-keys", keys, "field of a jsonl line that holds the text; megatron: one dataset for each")
      .separated_by(',')
      .show_default();
  bool append_eod = false;
  app.add_switch("--append-eod", append_eod, "write the end-of-text token after each document (nanogpt always does)");
  app.add("--end-of-text", options.end_of_text, "token written after each document; default: the tokenizer's own");
  app.add("--val-fraction", options.split.val_fraction, "part of the documents that goes to val.bin; 0: none")
      .show_default();
  app.add("--split-seed", options.split.seed, "seed of that choice").show_default();
  std::string order = "input";
  app.add("--order", order, "documents in input order, or shuffled as the published OpenWebText files are")
      .one_of({"input", "openwebtext"})
      .show_default();
  app.add("--train-fraction", options.train_fraction, "part of the characters of a single .txt that is training")
      .show_default();
  app.add_switch("--strict", options.strict, "stop at the first malformed line instead of skipping and counting them");
  app.add("--threads", options.threads, "worker threads").in_range(1, 1024).show_default();
  if (const auto code = app.parse(std::move(arguments))) return *code;
  options.split.order = order == "input" ? DocumentOrder::input : DocumentOrder::openwebtext;
  options.load = load_options(load);
  options.stop = &watch_stop_signals();
  if (format == "megatron") {
    for (const char* flag : {"--val-fraction", "--split-seed", "--order", "--train-fraction"})
      require(app.count(flag) == 0, ErrorKind::usage,
              "{} is for --format nanogpt; megatron data is split when it is read", flag);
    run_megatron(options, keys, append_eod);
    return 0;
  }
  require(keys.size() == 1, ErrorKind::usage, "--format nanogpt takes one --json-keys field, {} were given",
          keys.size());
  options.json_key = keys[0];
  run_nanogpt(options);
  return 0;
}

}  // namespace trireme
