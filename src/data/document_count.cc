#include "data/document_count.h"

#include <algorithm>
#include <filesystem>

#include "data/compressed_source.h"
#include "data/document_chunks.h"
#include "data/document_encoder.h"
#include "data/json_lines.h"
#include "data/ordered_pipeline.h"
#include "data/progress_bar.h"

namespace trireme {
namespace {

struct Item {
  DocumentChunk chunk;
  uint64_t documents = 0;
};

bool is_cheap_to_read(const InputFile& file) {
  return (file.kind == InputKind::text || file.kind == InputKind::json_lines) &&
         compression_of(file.path) == Compression::none && std::filesystem::is_regular_file(file.path);
}

/// Of jsonl files.
uint64_t count_lines_with_documents(const std::vector<InputFile>& files, uint64_t most,
                                    const DocumentCounting& options) {
  uint64_t bytes = 0;
  for (const InputFile& file : files) bytes += file.bytes;
  std::vector<JsonLines> parsers;
  for (int i = 0; i < options.threads; ++i) parsers.emplace_back(std::vector{options.json_key});
  DocumentChunks chunks(files, [](std::string_view text, size_t) { return text.size(); });
  ProgressBar progress("count documents", bytes);
  std::atomic<uint64_t> documents{0};
  OrderedPipeline<Item>::run(options.threads, {[&](Item& item) { return documents < most && chunks.next(item.chunk); },
                                               [&](Item& item, int worker) {
                                                 item.documents = 0;
                                                 parsers[static_cast<size_t>(worker)].parse(
                                                     item.chunk, {[&](size_t, std::string_view) { ++item.documents; },
                                                                  [](uint64_t, const std::string&) {}});
                                               },
                                               [&](Item& item) {
                                                 check_stop(options.stop);
                                                 documents += item.documents;
                                                 progress.update(item.chunk.progress, documents);
                                               }});
  return documents;
}

}  // namespace

std::optional<uint64_t> count_documents(const std::vector<InputFile>& files, const DocumentCounting& options) {
  if (!std::all_of(files.begin(), files.end(), is_cheap_to_read)) return std::nullopt;
  const uint64_t most = options.most_documents > 0 ? options.most_documents : UINT64_MAX;
  uint64_t documents = 0;
  std::vector<InputFile> jsonl;
  for (const InputFile& file : files) {
    if (file.kind == InputKind::json_lines)
      jsonl.push_back(file);
    else
      documents += file.bytes > 0;
  }
  if (!jsonl.empty() && documents < most) documents += count_lines_with_documents(jsonl, most - documents, options);
  return std::min(documents, most);
}

}  // namespace trireme
