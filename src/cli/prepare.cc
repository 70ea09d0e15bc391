#include "data/prepare.h"

#include <CLI/CLI.hpp>
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
  CLI::App app("Turns text into token files for training: train.bin, val.bin, their sidecars and tokenizer.json.",
               "trireme prepare");
  app.add_option("--input", options.inputs,
                 "text: .txt and .jsonl files, folders, globs, several with commas between; also .gz and .zst")
      ->required();
  app.add_option(
         "--tokenizer", options.tokenizer,
         "tokenizer.json, vocab.txt, a tiktoken file, a folder with one or with vocabulary and merges, or `char`: "
         "one id per character of the input")
      ->required();
  TokenizerFlags load;
  add_tokenizer_flags(app, load);
  app.add_option("--output", options.output, "folder for the results; for megatron the prefix of their names")
      ->required();
  std::string format = "nanogpt";
  app.add_option("--format", format, "train.bin and val.bin, or PREFIX_KEY_document.bin and .idx")
      ->check(CLI::IsMember({"nanogpt", "megatron"}))
      ->capture_default_str();
  std::vector<std::string> keys{"text"};
  app.add_option("--json-keys", keys, "field of a jsonl line that holds the text; megatron: one dataset for each")
      ->delimiter(',')
      ->capture_default_str();
  bool append_eod = false;
  app.add_flag("--append-eod", append_eod, "write the end-of-text token after each document (nanogpt always does)");
  app.add_option("--end-of-text", options.end_of_text,
                 "token written after each document; default: the tokenizer's own");
  app.add_option("--val-fraction", options.split.val_fraction, "part of the documents that goes to val.bin; 0: none")
      ->capture_default_str();
  app.add_option("--split-seed", options.split.seed, "seed of that choice")->capture_default_str();
  std::string order = "input";
  app.add_option("--order", order, "documents in input order, or shuffled as the published OpenWebText files are")
      ->check(CLI::IsMember({"input", "openwebtext"}))
      ->capture_default_str();
  app.add_option("--train-fraction", options.train_fraction, "part of the characters of a single .txt that is training")
      ->capture_default_str();
  app.add_flag("--strict", options.strict, "stop at the first malformed line instead of skipping and counting them");
  app.add_option("--threads", options.threads, "worker threads")->check(CLI::Range(1, 1024))->capture_default_str();
  if (const auto code = parse_flags(app, std::move(arguments))) return *code;
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
