#include "data/prepare.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/log.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/stop_signals.h"
#include "cli/tokenizer_flags.h"
#include "data/progress.h"

namespace trireme {
namespace {

void print_report(const PrepareOptions& options, const PrepareReport& report) {
  const double seconds = std::max(report.seconds, 1e-9);
  log::info("{}: {} documents, {} tokens in train.bin ({} documents), {} in val.bin ({})", options.output,
            report.documents, report.train_tokens, report.train_documents, report.val_tokens, report.val_documents);
  log::info("{} of text in {:.2f} s: {}/s, {:.0f} documents/s (tokenizer loaded in {:.2f} s)",
            human_bytes(report.input_bytes), report.seconds,
            human_bytes(static_cast<uint64_t>(static_cast<double>(report.input_bytes) / seconds)),
            static_cast<double>(report.documents) / seconds, report.load_seconds);
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
  app.add_option("--output", options.output, "folder for the results")->required();
  app.add_option("--json-keys", options.json_key, "field of a jsonl line that holds the text")->capture_default_str();
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
  print_report(options, prepare(options));
  return 0;
}

}  // namespace trireme
