#include "data/prepare_megatron.h"

#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/time.h"
#include "data/document_encoder.h"
#include "data/indexed_dataset.h"

namespace trireme {
namespace {

std::optional<TokenId> find_end(const Tokenizer& tokenizer, const MegatronOptions& options) {
  if (!options.append_eod) return std::nullopt;
  const bool named = !options.end_of_text.empty();
  const std::optional<TokenId> id = named ? tokenizer.token_to_id(options.end_of_text) : tokenizer.end_of_text();
  require(id.has_value(), ErrorKind::data, "tokenizer {} has no {} for --append-eod{}", options.tokenizer,
          named ? fmt::format("token \"{}\"", options.end_of_text) : "end-of-text token",
          named ? "" : "; name one with --end-of-text TOKEN");
  return id;
}

}  // namespace

MegatronReport prepare_megatron(const MegatronOptions& options) {
  const std::vector<InputFile> files = list_inputs(options.inputs);
  const auto start = Clock::now();
  const auto tokenizer = load_tokenizer(options.tokenizer, options.load);
  MegatronReport report;
  report.load_seconds = seconds_since(start);
  DocumentEncoding encoding;
  encoding.end_of_text = find_end(*tokenizer, options);
  encoding.strict = options.strict;
  encoding.threads = options.threads;
  encoding.stop = options.stop;
  const auto folder = std::filesystem::path(options.prefix).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder);
  for (const std::string& key : options.json_keys) {
    encoding.json_key = key;
    IndexedWriter writer(fmt::format("{}_{}_document", options.prefix, key),
                         indexed_type_for(tokenizer->vocabulary_size()));
    const EncodedDocuments result = encode_documents(files, *tokenizer, encoding, writer);
    writer.commit();
    report.documents += result.documents;
    report.tokens += writer.tokens();
    report.input_bytes += result.text_bytes;
  }
  report.seconds = seconds_since(start) - report.load_seconds;
  return report;
}

}  // namespace trireme
