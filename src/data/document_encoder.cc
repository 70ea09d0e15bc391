#include "data/document_encoder.h"

#include "base/error.h"
#include "base/log.h"
#include "data/document_chunks.h"
#include "data/json_lines.h"
#include "data/ordered_pipeline.h"
#include "data/progress.h"

namespace trireme {
namespace {

constexpr size_t kReportedFaults = 10;
constexpr size_t kKeptBuffer = size_t{8} << 20;  // a chunk that grew beyond it gives its memory back

struct Fault {
  uint64_t line;
  std::string reason;
};

/// One chunk on its way through the pipeline.
struct Item {
  DocumentChunk chunk;
  std::vector<TokenId> ids;
  std::vector<size_t> ends;  // of documents, in ids
  std::vector<Fault> faults;
  uint64_t text_bytes = 0;
  bool empty_file = false;

  void clear() {
    ids.clear();
    ends.clear();
    faults.clear();
    text_bytes = 0;
    empty_file = false;
  }
  void give_back_memory() {
    if (chunk.bytes.size() > kKeptBuffer) chunk.bytes = std::string();
    if (ids.capacity() * sizeof(TokenId) > kKeptBuffer) ids = {};
  }
};

void encode(Item& item, const Tokenizer& tokenizer, const DocumentEncoding& options, JsonLines& parser) {
  const auto append = [&](std::string_view text) {
    tokenizer.encode_plain(text, item.ids);
    item.text_bytes += text.size();
  };
  const auto end_document = [&] {
    if (options.end_of_text) item.ids.push_back(*options.end_of_text);
    item.ends.push_back(item.ids.size());
  };
  item.clear();
  if (item.chunk.kind == InputKind::json_lines) {
    const auto document = [&](std::string_view text) {
      append(text);
      end_document();
    };
    const auto fault = [&](uint64_t line, std::string reason) { item.faults.push_back({line, std::move(reason)}); };
    parser.parse(item.chunk, {document, fault});
  } else if (item.chunk.size == 0) {
    item.empty_file = true;
  } else {
    append(item.chunk.text());
    if (item.chunk.ends_document) end_document();
  }
}

void report_faults(const Item& item, const DocumentEncoding& options, EncodedDocuments& result) {
  for (const Fault& fault : item.faults) {
    const std::string what = fmt::format("{}, line {}: {}", *item.chunk.path, fault.line, fault.reason);
    require(!options.strict, ErrorKind::data, "{}; without --strict such lines are skipped and counted", what);
    if (result.skipped_lines++ < kReportedFaults) log::warning("skipped {}", what);
  }
  if (!item.empty_file) return;
  ++result.empty_files;
  log::warning("skipped {}: it is empty", *item.chunk.path);
}

void give(const Item& item, DocumentSink& sink, EncodedDocuments& result) {
  const std::span<const TokenId> ids(item.ids);
  size_t begin = 0;
  for (const size_t end : item.ends) {
    sink.append(ids.subspan(begin, end - begin));
    sink.end_document();
    begin = end;
  }
  sink.append(ids.subspan(begin));
  result.documents += item.ends.size();
  result.text_bytes += item.text_bytes;
}

}  // namespace

void check_stop(const std::atomic<bool>* stop) {
  if (stop && stop->load()) fail(ErrorKind::stopped, "stopped before the end; nothing of this run is left");
}

EncodedDocuments encode_documents(const std::vector<InputFile>& files, const Tokenizer& tokenizer,
                                  const DocumentEncoding& options, DocumentSink& sink) {
  uint64_t total = 0;
  for (const InputFile& file : files) total += file.bytes;
  std::vector<JsonLines> parsers;
  for (int i = 0; i < options.threads; ++i) parsers.emplace_back(options.json_key);
  DocumentChunks chunks(
      files, [&](std::string_view text, size_t near) { return tokenizer.cut(text, near); }, options.border);
  Progress progress(options.task, total);
  EncodedDocuments result;
  OrderedPipeline<Item>::run(options.threads, {[&](Item& item) { return chunks.next(item.chunk); },
                                               [&](Item& item, int worker) {
                                                 encode(item, tokenizer, options, parsers[static_cast<size_t>(worker)]);
                                               },
                                               [&](Item& item) {
                                                 check_stop(options.stop);
                                                 report_faults(item, options, result);
                                                 give(item, sink, result);
                                                 item.give_back_memory();
                                                 progress.update(item.chunk.progress, result.documents);
                                               }});
  if (result.skipped_lines > kReportedFaults)
    log::warning("skipped {} malformed lines in all; the first {} are named above", result.skipped_lines,
                 kReportedFaults);
  require(result.documents > 0, ErrorKind::data, "the input has no documents ({} malformed lines, {} empty files)",
          result.skipped_lines, result.empty_files);
  return result;
}

}  // namespace trireme
