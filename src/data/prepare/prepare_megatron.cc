#include "data/prepare/prepare_megatron.h"

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/time.h"
#include "data/indexed_dataset.h"
#include "data/prepare/prepare_outputs.h"
#include "data/prepare/spooled_documents.h"
#include "data/sidecar.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

IndexedLayout layout_of(const TokenSpool& spool, const std::string& name) {
  IndexedLayout layout{.type = spool.width() == 2 ? IndexedType::u16 : IndexedType::i32};
  uint64_t begin = 0;
  for (const uint64_t end : spool.ends()) {
    require(end - begin <= INT32_MAX, ErrorKind::data,
            "{}: document {} has {} ids, but an indexed dataset supports at most {}", name, layout.documents.size(),
            end - begin, INT32_MAX);
    if (end > begin) layout.lengths.push_back(static_cast<int32_t>(end - begin));
    layout.documents.push_back(static_cast<int64_t>(layout.lengths.size()));
    begin = end;
  }
  require(spool.tokens() > 0, ErrorKind::data, "{}.bin would be empty: {} documents without an id", name,
          spool.documents());
  return layout;
}

TokenSidecar sidecar_of(TokenSpool& spool, const std::string& path, const Tokenizer& tokenizer) {
  TokenSpool::Summary summary = spool.summary_of_first(path, spool.documents());
  TokenSidecar sidecar;
  sidecar.tokens = summary.tokens;
  sidecar.documents = spool.documents();
  sidecar.vocabulary = tokenizer.vocabulary_size();
  sidecar.tokenizer_hash = hex64(tokenizer.hash());
  sidecar.dtype = dtype_of(spool.width());
  sidecar.split = "all documents; they are split when they are read";
  sidecar.block_hashes = std::move(summary.block_hashes);
  return sidecar;
}

}  // namespace

MegatronReport prepare_megatron(const MegatronOptions& options) {
  const std::vector<InputFile> files = list_inputs(options.inputs, options.input_kind, options.encoding);
  const auto start = Clock::now();
  const auto tokenizer = load_tokenizer(options.tokenizer, options.load);
  MegatronReport report;
  report.load_seconds = seconds_since(start);

  const fs::path prefix(options.prefix);
  const fs::path folder = prefix.has_parent_path() ? prefix.parent_path() : fs::path(".");
  const std::string base = prefix.filename().string();
  fs::create_directories(folder);
  SpooledDocuments::Options spool;
  spool.work_folder = (folder / fmt::format(".{}.prepare", base)).string();
  spool.kept = true;
  spool.encoding.width = width_of(indexed_type_for(tokenizer->vocabulary_size()));
  spool.encoding.json_keys = options.json_keys;
  if (options.append_eod)
    spool.encoding.end_of_text = end_of_text_id(*tokenizer, options.end_of_text, options.tokenizer, "for --append-eod");
  spool.encoding.most_documents = options.most_documents;
  spool.encoding.most_bytes = options.most_bytes;
  spool.encoding.strict = options.strict;
  spool.encoding.threads = options.threads;
  spool.encoding.stop = options.stop;

  SpooledDocuments documents(files, *tokenizer, spool);
  documents.run([&] {
    const DocumentCounts& counts = documents.encode();
    report.documents = counts.documents;
    report.input_bytes = counts.text_bytes;
    PrepareOutputs outputs(folder, documents.work_file("results"));
    for (size_t key = 0; key < options.json_keys.size(); ++key) {
      check_stop(options.stop);
      TokenSpool& ids = documents.spool(key);
      ids.sync();
      const std::string name = fmt::format("{}_{}_document", base, options.json_keys[key]);
      write_index(outputs.path(name + ".idx"), layout_of(ids, name));
      write_sidecar(outputs.path(name + ".bin"), sidecar_of(ids, name + ".bin", *tokenizer));
      report.tokens += ids.tokens();
    }
    for (size_t key = 0; key < options.json_keys.size(); ++key)  // from now on a later run cannot resume
      fs::rename(documents.spool(key).ids_path(),
                 outputs.path(fmt::format("{}_{}_document.bin", base, options.json_keys[key])));
    outputs.publish();
  });
  report.seconds = seconds_since(start) - report.load_seconds;
  return report;
}

namespace {

namespace fs = std::filesystem;

constexpr size_t kCopyBytes = size_t{4} << 20;

void append_layout(const IndexedDataset& dataset, IndexedLayout& layout) {
  const auto before = static_cast<int64_t>(layout.lengths.size());
  layout.lengths.insert(layout.lengths.end(), dataset.lengths().begin(), dataset.lengths().end());
  for (const int64_t border : dataset.document_index().subspan(1)) layout.documents.push_back(before + border);
}

/// The tokenizers of two datasets must be equal if both are known.
void join_tokenizers(const IndexedDataset& dataset, TokenSidecar& sidecar, bool& known) {
  if (!dataset.sidecar()) {
    known = false;
    return;
  }
  const TokenSidecar& other = *dataset.sidecar();
  require(sidecar.tokenizer_hash.empty() || sidecar.tokenizer_hash == other.tokenizer_hash, ErrorKind::data,
          "{} was prepared with another tokenizer (hash {}) than the datasets before it (hash {})", dataset.path(),
          other.tokenizer_hash, sidecar.tokenizer_hash);
  sidecar.tokenizer_hash = other.tokenizer_hash;
  sidecar.vocabulary = std::max(sidecar.vocabulary, other.vocabulary);
}

}  // namespace

MergeReport merge_indexed(const std::vector<std::string>& inputs, const std::string& prefix) {
  require(inputs.size() > 1, ErrorKind::usage, "{} dataset given; merging needs at least two", inputs.size());
  if (const fs::path folder = fs::path(prefix).parent_path(); !folder.empty()) fs::create_directories(folder);
  IndexedLayout layout;
  TokenSidecar sidecar;
  bool tokenizer_known = true;
  BlockHasher hasher;
  AtomicFile bin(prefix + ".bin");
  for (size_t i = 0; i < inputs.size(); ++i) {
    require(fs::weakly_canonical(inputs[i]) != fs::weakly_canonical(prefix), ErrorKind::usage,
            "{} is both an input and the output", prefix);
    const IndexedDataset dataset(inputs[i]);
    if (i == 0) layout.type = dataset.type();
    require(dataset.type() == layout.type, ErrorKind::data,
            "{} has ids of {} bytes, but the datasets before it have {}; prepare them with the same tokenizer",
            dataset.path(), width_of(dataset.type()), width_of(layout.type));
    append_layout(dataset, layout);
    join_tokenizers(dataset, sidecar, tokenizer_known);
    sidecar.tokens += dataset.tokens();
    for (auto bytes = dataset.bytes(); !bytes.empty(); bytes = bytes.subspan(std::min(kCopyBytes, bytes.size()))) {
      const auto part = bytes.first(std::min(kCopyBytes, bytes.size()));
      bin.write(part);
      hasher.append(part);
    }
  }
  sidecar.documents = layout.documents.size() - 1;
  sidecar.dtype = dtype_of(width_of(layout.type));
  sidecar.split = "all documents; they are split when they are read";
  sidecar.block_hashes = hasher.finish();
  bin.commit();
  write_index(prefix + ".idx", layout);
  if (tokenizer_known)
    write_sidecar(prefix + ".bin", sidecar);
  else
    fs::remove(sidecar_path(prefix + ".bin"));  // of an earlier file
  return {sidecar.documents, sidecar.tokens};
}

}  // namespace trireme
