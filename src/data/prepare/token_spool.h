#pragma once
// Ids of all documents on disk, in the order of reading, until each document's output file is known.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/prepare/document_encoder.h"
#include "data/prepare/growing_file.h"
#include "data/prepare/work_folder.h"

namespace trireme {

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

}  // namespace trireme
