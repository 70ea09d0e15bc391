#include "text/tokenizer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/opened_file.h"
#include "base/stop.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/data/tokenizer_chat.h"
#include "cli/data/tokenizer_flags.h"
#include "cli/flags.h"
#include "cli/threads.h"
#include "data/prepare/training_text.h"
#include "text/line_codec.h"
#include "text/training/bpe_trainer.h"

namespace trireme {
namespace {

struct TrainFlags {
  TrainingTextOptions text;
  BpeTraining training;
  std::string output, input_format = "auto", encoding = "auto";
  uint64_t max_document = kMostDocumentBytes >> 20;
};

struct CodecFlags {
  std::string tokenizer, file = "-", encoding = "auto";
  TokenizerFlags load;
  LineCodecOptions options;
};

void run_train_tokenizer(TrainFlags& flags) {
  const auto start = Clock::now();
  flags.text.stop = &stop::watch();
  flags.text.most_bytes = flags.max_document << 20;
  flags.text.input_kind = input_kind_from(flags.input_format);
  flags.text.encoding = input_encoding_from(flags.encoding);
  const PieceCounter counts = count_pieces(flags.text);
  const double counted = seconds_since(start);
  flags.training.progress = [&](size_t) {
    require(!*flags.text.stop, ErrorKind::stopped, "stopped before the end: nothing was written");
  };
  const BpeDescription tokenizer = train_bpe(counts, flags.training);
  const double seconds = seconds_since(start);
  if (tokenizer.vocabulary.size() < flags.training.vocabulary_size)
    log::warning("the text gave only {} instead of {}: no remaining pair of tokens occurs {} times",
                 count_text(tokenizer.vocabulary.size(), "token"), flags.training.vocabulary_size,
                 flags.training.least_count);
  std::filesystem::create_directories(flags.output);
  const std::string path = (std::filesystem::path(flags.output) / "tokenizer.json").string();
  write_text(path, write_tokenizer_json(tokenizer));
  log::info("{}: {} from {} of text in {:.2f} s ({:.2f} s of it for reading and counting)", path,
            count_text(tokenizer.vocabulary.size(), "token"), count_text(counts.total(), "word"), seconds, counted);
}

/// A file or, for "-", standard input.
struct InputStream {
  explicit InputStream(const std::string& path) {
    if (path == "-") return;
    OpenedFile opened(path, Accepts::pipes_too);
    file = fdopen(dup(opened.fd()), "rb");
    require(file != nullptr, ErrorKind::io, "cannot open {}", path);
    char first = 0;  // which a pipe may already have delivered
    if (opened.is_regular() || opened.read(&first, 1) == 0) return;
    std::ungetc(static_cast<unsigned char>(first), file);
  }
  InputStream(const InputStream&) = delete;
  InputStream& operator=(const InputStream&) = delete;
  ~InputStream() {
    if (file != stdin) std::fclose(file);
  }
  std::FILE* file = stdin;
};

const Flags& add_train(Flags& app, TrainFlags& flags) {
  Flags& train = app.add_action("train", "Trains a byte-level BPE tokenizer on text");
  train.add("--input", flags.text.inputs, "text, as `trireme prepare` reads it: files, archives, folders, globs, -")
      .required();
  train.add("--input-format", flags.input_format, "format of the files, instead of the one from their names")
      .one_of({"auto", "txt", "jsonl"})
      .show_default();
  train.add("--encoding", flags.encoding, kEncodingHelp).show_default();
  train
      .add("--vocab-size", flags.training.vocabulary_size,
           "number of tokens, including <|endoftext|> and the 256 bytes")
      .required()
      .in_range(1, 1 << 22);
  train.add("--output", flags.output, "folder for tokenizer.json").required();
  train.add("--min-frequency", flags.training.least_count, "rarer pairs are not merged").positive().show_default();
  train.add("--json-keys", flags.text.json_key, "field of a jsonl line with the text").show_default();
  train.add("--max-document", flags.max_document, "maximum size in MiB of a line, or of text without a space")
      .in_range(1, kMostDocumentMebibytes)
      .show_default();
  train.add("--threads", flags.text.threads, "worker threads").in_range(1, 1024).show_default();
  return train;
}

void add_tokenizer(Flags& command, CodecFlags& flags) {
  command
      .add("--tokenizer", flags.tokenizer,
           "tokenizer.json, vocab.txt, a tiktoken file, or a folder with one of these or with vocabulary and merges")
      .required();
  add_tokenizer_flags(command, flags.load);
}

void add_codec(Flags& command, CodecFlags& flags) {
  add_tokenizer(command, flags);
  command.add("FILE", flags.file, "input; - is standard input").show_default();
}

void run_show_tokenizer(const CodecFlags& flags) {
  const auto tokenizer = load_tokenizer(flags.tokenizer, load_options(flags.load));
  fmt::print("{}: {} ids\n", flags.tokenizer, tokenizer->vocabulary_size());
  const std::vector<std::string> steps = tokenizer->cutting();
  fmt::print("{}\n", steps.empty() ? "text is not split" : "text is split into pieces by");
  for (const std::string& step : steps) fmt::print("  {}\n", step);
}

}  // namespace

int run_tokenizer(CommandLine line) {
  TrainFlags train;
  CodecFlags encode, decode, show;
  train.text.threads = default_threads();
  Flags app(std::move(line), "trireme tokenizer",
            "Trains tokenizers, converts text to ids and ids to text, shows how text is split and what chat templates "
            "produce.");
  const Flags& trainer = add_train(app, train);
  Flags& encoder = app.add_action("encode", "One JSON array of ids per line of text");
  add_codec(encoder, encode);
  encoder.add("--encoding", encode.encoding, kEncodingHelp).show_default();
  encoder.add_switch("--jsonl", encode.options.json_lines,
                     "each line is {\"text\": ..., \"text_pair\": ...}; text_pair is optional");
  bool no_special = false;
  encoder.add_switch("--no-special-tokens", no_special,
                     "do not add the template; special tokens in the text are plain text");
  encoder.add("--max-length", encode.options.encode.max_length,
              "truncate to this number of ids, including the template");
  Flags& decoder = app.add_action("decode", "Text of each JSON array of ids");
  add_codec(decoder, decode);
  decoder.add_switch("--skip-special-tokens", decode.options.skip_special_tokens, "omit special tokens from the text");
  Flags& shower = app.add_action("show", "Shows the number of ids of a tokenizer and how it splits text");
  add_tokenizer(shower, show);
  Flags& talker = app.add_action(
      "chat", "Shows the text and ids of conversations with a chat template, and which ids are trained on");
  TokenizerChatFlags talk;
  add_tokenizer_chat(talker, talk);
  if (const auto code = app.parse()) return *code;
  if (talker.chosen()) {
    run_tokenizer_chat(talk);
    return 0;
  }
  if (trainer.chosen()) {
    run_train_tokenizer(train);
    return 0;
  }
  if (shower.chosen()) {
    run_show_tokenizer(show);
    return 0;
  }
  const bool encoding = encoder.chosen();
  CodecFlags& flags = encoding ? encode : decode;
  flags.options.encode.special_tokens = !no_special;
  const InputEncoding encoding_of_text = input_encoding_from(encode.encoding);
  flags.options.encoding = encoding_of_text.name;
  flags.options.judges = encoding_of_text.judges;
  const auto tokenizer = load_tokenizer(flags.tokenizer, load_options(flags.load));
  const InputStream input(flags.file);
  if (encoding)
    encode_lines(*tokenizer, flags.options, input.file, stdout, flags.file);
  else
    decode_lines(*tokenizer, flags.options, input.file, stdout, flags.file);
  return 0;
}

}  // namespace trireme
