#pragma once
// Encodes the documents of the input into one spool per key (or two for a single key); resumes a killed run.

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/time.h"
#include "data/prepare/document_encoder.h"
#include "data/prepare/growing_file.h"

namespace trireme {

// Sends documents to one of two sinks, by their number.

class DividingSink final : public DocumentSink {
 public:
  /// `apart`: numbers of the documents for `second`, ascending; the others are for `first`. `done`: documents sent
  /// before. All of them must outlive the object. width: bytes of an id.
  DividingSink(std::span<const uint64_t> apart, uint64_t done, uint64_t width, DocumentSink& first,
               DocumentSink& second);

  void append(std::span<const std::byte> ids, std::span<const size_t> ends) override;

 private:
  bool is_apart() const { return next_ < apart_.size() && apart_[next_] == document_; }
  /// Number of the next documents, up to `most`, that go to the same sink as the first of them.
  uint64_t alike(uint64_t most) const;

  std::span<const uint64_t> apart_;
  uint64_t document_;  // number of the current document
  size_t next_;        // the first of apart_ that is not before it
  uint64_t width_;
  DocumentSink& first_;
  DocumentSink& second_;
  std::vector<size_t> ends_;
};

// The folder with a preparation's progress, from which a killed one resumes. It is beside the results, has a name that
// begins with a dot, belongs to one process at a time and is removed at the end.

class WorkFolder {
 public:
  /// Creates or takes over the folder. `job` describes the preparation, its input and its options; removes another
  /// job's files. Throws Error::io, Error::locked if another process works there.
  WorkFolder(std::string path, std::string job);
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  /// Removes the folder unless keep() was called.
  ~WorkFolder();

  std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// The state of the same job's last save(). Throws Error::io.
  std::optional<Json> saved() const;
  /// Replaces the state; survives a power cut.
  void save(const Json& state);
  bool has_saved() const { return has_saved_; }
  /// Keeps the folder for a later run.
  void keep() { keep_ = true; }

 private:
  void lock();
  void remove_content() const;

  std::string path_, job_;
  int lock_ = -1;
  bool has_saved_ = false, keep_ = false;
};

// Ids of all documents on disk, in the order of reading, until each document's output file is known.

/// Three files in a work folder: NAME.ids; NAME.ends, the end of each document; NAME.hashes, the hash of each full
/// block of a sidecar. 8 bytes of memory per document.
class TokenSpool final : public DocumentSink {
 public:
  struct Options {
    uint64_t width = 2;  ///< bytes of an id, 2 or 4
    bool kept = false;   ///< move_first() will turn the id file into a token file
  };

  /// `saved`: the result of state() when the work folder was last saved; null: none. Throws Error::io.
  TokenSpool(const WorkFolder& folder, const std::string& name, Options options, const Json& saved);

  void append(std::span<const std::byte> ids, std::span<const size_t> ends) override;

  uint64_t documents() const { return ends_.size(); }
  uint64_t tokens() const { return tokens_; }
  uint64_t width() const { return width_; }
  /// End of a document in ids, by its number.
  std::span<const uint64_t> ends() const { return ends_; }
  /// Path of the ids.
  const std::string& ids_path() const { return ids_.path(); }

  /// Makes appended data survive the end of the process.
  void flush();
  /// Makes appended data survive a power cut.
  void sync();
  /// Describes the appended data for a later run.
  Json state() const;

  struct Summary {
    uint64_t tokens = 0;
    std::vector<uint64_t> block_hashes;
  };
  /// A document of a spool.
  struct Place {
    const TokenSpool* spool;
    uint64_t document;
  };
  /// Writes documents, found by their number, to a new token file and syncs it. Their spools must be flushed. Throws
  /// Error::io, Error::data if the file would be empty. `keep_going` is called between blocks and may throw.
  static Summary write(const std::string& path, size_t documents, const std::function<Place(size_t)>& place_of,
                       const std::function<void()>& keep_going);

  /// Whether these are the first documents in order: their token file is then the spool's own file, truncated after
  /// them.
  bool begins_with(std::span<const uint64_t> documents) const;
  /// What write() to that path would return for the first documents. Throws the same errors.
  Summary summary_of_first(const std::string& path, uint64_t documents);
  /// Turns the spool's file into the token file of the first documents. The spool is unusable afterwards.
  void move_first(const std::string& path, uint64_t documents) { ids_.move(path, end_of_first(documents) * width_); }

 private:
  uint64_t end_of_first(uint64_t documents) const { return documents == 0 ? 0 : ends_[documents - 1]; }

  uint64_t width_;
  uint64_t tokens_;
  std::vector<uint64_t> ends_, hashes_;
  size_t ends_on_disk_, hashes_on_disk_;
  GrowingFile ids_, ends_file_, hashes_file_;
};

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
