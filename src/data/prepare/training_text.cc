#include "data/prepare/training_text.h"

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"
#include "data/prepare/document_chunks.h"
#include "data/prepare/ordered_pipeline.h"
#include "data/prepare/progress_bar.h"

namespace trireme {
namespace {

struct Item {
  DocumentChunk chunk;
  uint64_t faults = 0;
};

/// GPT-2's pattern allows cuts between a letter and the white space after it, as in Tokenizer::cut().
size_t cut_before_space(std::string_view text, size_t near) {
  for (size_t i = near; i < text.size(); ++i) {
    const char before = static_cast<char>(text[i - 1] | 0x20);
    if (before >= 'a' && before <= 'z' && (text[i] == ' ' || text[i] == '\n')) return i;
  }
  return text.size();
}

}  // namespace

PieceCounter count_pieces(const TrainingTextOptions& options) {
  const std::vector<InputFile> files = list_inputs(options.inputs, options.input_kind, options.encoding);
  uint64_t total = 0, faults = 0;
  for (const InputFile& file : files) total += file.bytes;
  std::vector<PieceCounter> counters(static_cast<size_t>(options.threads));
  std::vector<JsonLines> parsers;
  for (int i = 0; i < options.threads; ++i) parsers.emplace_back(std::vector{options.json_key});
  DocumentChunks chunks(files, cut_before_space, {.columns = {options.json_key}, .most_bytes = options.most_bytes});
  ProgressBar progress("count words", total);
  OrderedPipeline<Item>::run(options.threads, {[&](Item& item) { return chunks.next(item.chunk); },
                                               [&](Item& item, int worker) {
                                                 PieceCounter& counter = counters[static_cast<size_t>(worker)];
                                                 item.faults = 0;
                                                 if (item.chunk.kind == InputKind::text)
                                                   return counter.add_text(item.chunk.text());
                                                 parsers[static_cast<size_t>(worker)].parse(
                                                     item.chunk,
                                                     {[&](size_t, std::string_view text) { counter.add_text(text); },
                                                      [&](uint64_t, const std::string&) { ++item.faults; }});
                                               },
                                               [&](Item& item) {
                                                 if (options.stop && options.stop->load())
                                                   fail(ErrorKind::stopped, "training was stopped");
                                                 faults += item.faults;
                                                 progress.update(item.chunk.progress, 0);
                                               }});
  if (faults > 0) log::warning("skipped {}", count_text(faults, "malformed line"));
  for (size_t i = 1; i < counters.size(); ++i) counters[0].merge(counters[i]);
  require(counters[0].total() > 0, ErrorKind::data, "the input has no text ({})", count_text(faults, "malformed line"));
  return std::move(counters[0]);
}

}  // namespace trireme
