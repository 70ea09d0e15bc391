#include "data/prepare.h"

#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/time.h"
#include "data/document_chunks.h"
#include "data/document_encoder.h"
#include "data/json_lines.h"
#include "data/ordered_pipeline.h"
#include "data/prepare_outputs.h"
#include "data/progress.h"
#include "data/sidecar.h"
#include "data/text_border.h"
#include "data/token_spool.h"
#include "text/tokenizer_writer.h"
#include "text/unicode.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestVocabulary = 65536;  // train.bin holds 16-bit ids
class Preparation {
 public:
  explicit Preparation(const PrepareOptions& options) : options_(options), files_(list_inputs(options.inputs)) {
    for (const InputFile& file : files_) total_bytes_ += file.bytes;
    require(total_bytes_ > 0, ErrorKind::data, "the input is empty: {} with 0 bytes",
            files_.size() == 1 ? files_[0].path : fmt::format("{} files", files_.size()));
    single_text_ = files_.size() == 1 && files_[0].kind == InputKind::text;
  }

  PrepareReport run() {
    fs::create_directories(options_.output);
    const auto start = Clock::now();
    load();
    report_.load_seconds = seconds_since(start);
    check_tokenizer();
    if (single_text_) border_ = text_border(files_[0].path, options_.train_fraction);
    TokenSpool spool((fs::path(options_.output) / fmt::format(".prepare-{}.tmp", getpid())).string());
    encode_all(spool);
    write_outputs(spool);
    report_.seconds = seconds_since(start) - report_.load_seconds;
    return report_;
  }

 private:
  void load() {
    if (options_.tokenizer == "char") {
      const std::vector<char32_t> characters = collect_characters();
      tokenizer_ = tokenizer_from_json(character_tokenizer_json(characters, !single_text_), "character vocabulary");
    } else {
      tokenizer_ = load_tokenizer(options_.tokenizer, options_.load);
    }
  }

  void check_tokenizer() {
    require(tokenizer_->vocabulary_size() <= kLargestVocabulary, ErrorKind::data,
            "tokenizer {} has ids up to {}, and train.bin holds 16-bit ids, up to 65535; use a tokenizer of at most "
            "65536 ids or --format megatron",
            options_.tokenizer, tokenizer_->vocabulary_size() - 1);
    if (single_text_) return;
    const bool named = !options_.end_of_text.empty();
    end_of_text_ = named ? tokenizer_->token_to_id(options_.end_of_text) : tokenizer_->end_of_text();
    require(end_of_text_.has_value(), ErrorKind::data, "tokenizer {} has no {} to write between documents{}",
            options_.tokenizer, named ? fmt::format("token \"{}\"", options_.end_of_text) : "end-of-text token",
            named ? "" : "; name one with --end-of-text TOKEN");
  }

  /// Reads everything once to see which characters there are.
  std::vector<char32_t> collect_characters() {
    using Seen = std::bitset<kInvalidCode + 1>;
    std::vector<std::unique_ptr<Seen>> seen;
    std::vector<JsonLines> parsers;
    for (int i = 0; i < options_.threads; ++i) {
      seen.push_back(std::make_unique<Seen>());
      parsers.emplace_back(options_.json_key);
    }
    const auto add = [&](std::string_view text, int worker) {
      Seen& set = *seen[static_cast<size_t>(worker)];
      const char* const end = text.data() + text.size();
      for (const char* p = text.data(); p < end;) {
        const Decoded next = decode_utf8(p, end);
        set.set(next.code);
        p += next.length;
      }
    };
    const auto between_characters = [](std::string_view text, size_t near) {
      while (near < text.size() && (static_cast<uint8_t>(text[near]) & 0xC0) == 0x80) ++near;
      return near;
    };
    DocumentChunks chunks(files_, between_characters);
    Progress progress("characters", total_bytes_);
    OrderedPipeline<DocumentChunk>::run(
        options_.threads,
        {[&](DocumentChunk& chunk) { return chunks.next(chunk); },
         [&](DocumentChunk& chunk, int worker) {
           if (chunk.kind == InputKind::text) return add(chunk.text(), worker);
           parsers[static_cast<size_t>(worker)].parse(
               chunk, {[&](std::string_view text) { add(text, worker); }, [](uint64_t, const std::string&) {}});
         },
         [&](DocumentChunk& chunk) {
           check_stop(options_.stop);
           progress.update(chunk.progress, 0);
         }});
    for (const auto& other : seen) *seen[0] |= *other;
    std::vector<char32_t> characters;
    for (char32_t code = 0; code <= kInvalidCode; ++code) {
      if (seen[0]->test(code)) characters.push_back(code);
    }
    return characters;
  }

  void encode_all(TokenSpool& spool) {
    DocumentEncoding encoding;
    encoding.json_key = options_.json_key;
    encoding.end_of_text = end_of_text_;
    encoding.border = border_;
    encoding.strict = options_.strict;
    encoding.threads = options_.threads;
    encoding.stop = options_.stop;
    const EncodedDocuments result = encode_documents(files_, *tokenizer_, encoding, spool);
    report_.input_bytes = result.text_bytes;
    report_.skipped_lines = result.skipped_lines;
    report_.empty_files = result.empty_files;
  }

  void write_outputs(TokenSpool& spool) {
    const DocumentSplit split =
        single_text_ ? DocumentSplit{{0}, {1}} : split_documents(spool.documents(), options_.split);
    report_.documents = single_text_ ? 1 : spool.documents();
    PrepareOutputs outputs(options_.output);
    report_.train_documents = split.train.size();
    report_.val_documents = split.val.size();
    report_.train_tokens = write_tokens(outputs, spool, "train.bin", split.train);
    if (split.val.empty())
      outputs.remove_old("val.bin");
    else
      report_.val_tokens = write_tokens(outputs, spool, "val.bin", split.val);
    write_text(outputs.path("tokenizer.json"), tokenizer_->json());
    outputs.keep();
  }

  uint64_t write_tokens(PrepareOutputs& outputs, TokenSpool& spool, const std::string& name,
                        const std::vector<uint64_t>& documents) {
    const std::string path = outputs.path(name);
    const TokenSpool::Summary summary = spool.write(path, documents, [this] { check_stop(options_.stop); });
    outputs.wrote(name);
    TokenSidecar sidecar;
    sidecar.tokens = summary.tokens;
    sidecar.documents = documents.size();
    sidecar.vocabulary = tokenizer_->vocabulary_size();
    sidecar.tokenizer_hash = hex64(tokenizer_->hash());
    sidecar.block_hashes = summary.block_hashes;
    sidecar.split = single_text_
                        ? fmt::format("one text: its first int({} x n) of n characters in train, the rest in val",
                                      options_.train_fraction)
                        : describe(options_.split);
    write_sidecar(path, sidecar);
    outputs.wrote(name + ".json");
    return summary.tokens;
  }

  const PrepareOptions& options_;
  std::vector<InputFile> files_;
  uint64_t total_bytes_ = 0, border_ = 0;
  bool single_text_ = false;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<TokenId> end_of_text_;
  PrepareReport report_;
};

}  // namespace

PrepareReport prepare(const PrepareOptions& options) { return Preparation(options).run(); }

}  // namespace trireme
