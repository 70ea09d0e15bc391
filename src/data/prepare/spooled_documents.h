#pragma once
// Encodes the documents of the input into one spool per key (or two for a single key); resumes a killed run.

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/time.h"
#include "data/prepare/document_encoder.h"
#include "data/prepare/token_spool.h"
#include "data/prepare/work_folder.h"

namespace trireme {

class SpooledDocuments {
 public:
  struct Options {
    std::string work_folder;
    std::string tokenizer;        ///< path, for messages
    bool kept = false;            ///< the spools' id files become token files
    std::vector<uint64_t> apart;  ///< with a single key: numbers of the documents for a second spool, ascending
    DocumentEncoding encoding;
  };

  /// Saves nothing with standard input, which cannot be read again. All arguments must outlive the object.
  SpooledDocuments(const std::vector<InputFile>& files, const Tokenizer& tokenizer, Options options);

  /// Encodes documents that an earlier run has not. Throws as encode_documents(), and Error::locked.
  const DocumentCounts& encode();
  /// The spool of a key; with `apart`, spool 1 has those documents and spool 0 the others.
  TokenSpool& spool(size_t number) { return *spools_[number]; }
  /// Writes documents of the only key to a token file; see TokenSpool::write().
  TokenSpool::Summary write(const std::string& path, std::span<const uint64_t> documents,
                            const std::function<void()>& keep_going);
  /// Folder for unfinished results, removed with the work.
  std::string work_file(const std::string& name) const { return work_.file(name); }

  /// Runs `body`, which encodes and writes the results. After a stop or a disk error saved work stays for a later run,
  /// otherwise it is removed. Rethrows the body's exception; the message of a stop tells which.
  void run(const std::function<void()>& body);

 private:
  void open_spools(const Json& saved);
  bool restore_from(const Json& saved);
  void restore();
  void save(const EncodingState& state);

  const std::vector<InputFile>& files_;
  const Tokenizer& tokenizer_;
  Options options_;
  WorkFolder work_;
  std::vector<std::unique_ptr<TokenSpool>> spools_;
  std::string on_disk_ = "null";  // the last state that survives a power cut, as JSON
  Clock::time_point synced_ = Clock::now();
  DocumentCounts counts_;
};

}  // namespace trireme
