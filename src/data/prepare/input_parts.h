#pragma once
// The text and jsonl streams of the input files in order: a file is one part, an archive has one part per readable
// file.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/prepare/byte_source.h"
#include "data/prepare/input_files.h"

namespace trireme {

// Reads the regular files of a tar archive in order: the old format, ustar, GNU's long names and pax headers.

class TarReader {
 public:
  /// `from`: the uncompressed archive; `path` names it in errors.
  TarReader(std::unique_ptr<ByteSource> from, std::string path);

  /// Goes to the next regular file, skipping the unread rest of the last one; false at the end. Throws Error::data (not
  /// a tar archive, damaged, truncated).
  bool next();
  /// Name of the current file.
  const std::string& name() const { return name_; }
  uint64_t size() const { return size_; }
  /// Reads from the current file; 0 at its end.
  size_t read(char* to, size_t size);
  uint64_t consumed() const { return from_->consumed(); }

 private:
  bool read_block(char* block);
  void read_exactly(char* to, size_t size);
  std::string read_body(uint64_t size);
  void skip_rest();

  std::unique_ptr<ByteSource> from_;
  std::string path_, name_;
  uint64_t size_ = 0, left_ = 0, padding_ = 0;
  bool first_ = true;
};

class TarReader;

/// A place between two bytes of the input, as numbers: a later run can find it in the same files.
struct InputPlace {
  uint64_t file = 0;        ///< index in the list of files
  uint64_t member = 0;      ///< readable files of an archive before this one
  uint64_t offset = 0;      ///< decompressed bytes of this part before the place
  uint64_t line = 1;        ///< number of the line that begins there
  uint64_t characters = 0;  ///< for a split text: characters before the place, up to the border
};

class InputParts {
 public:
  /// `files` must outlive the reader; `columns`, of texts up to `most_bytes`, are read from parquet files. Begins at
  /// the part of `from`.
  InputParts(const std::vector<InputFile>& files, std::vector<std::string> columns, InputPlace from = {},
             uint64_t most_bytes = UINT64_MAX);
  ~InputParts();

  /// Opens the next part; false at the end. Throws Error::io, Error::data.
  bool next();
  // The part that next() opened:
  ByteSource& source() { return *source_; }
  const std::shared_ptr<const std::string>& name() const { return name_; }  ///< path, or ARCHIVE:MEMBER
  InputKind kind() const { return kind_; }                                  ///< text or json_lines
  uint64_t file() const { return file_; }
  uint64_t member() const { return member_; }
  bool is_archive() const { return archive_ != nullptr; }

  /// Bytes of all files read so far.
  uint64_t consumed() const;

 private:
  bool next_member();
  void open_file();
  void close_file();
  void set_part(std::string name, InputKind kind);

  const std::vector<InputFile>& files_;
  std::vector<std::string> columns_;
  uint64_t most_bytes_;
  uint64_t file_ = 0, member_ = 0;
  uint64_t skip_members_ = 0;  // of the first archive
  uint64_t earlier_ = 0;       // bytes of the files before
  uint64_t unread_members_ = 0;
  bool open_ = false;
  std::shared_ptr<TarReader> archive_;
  std::unique_ptr<ByteSource> source_;
  std::shared_ptr<const std::string> name_;
  InputKind kind_ = InputKind::text;
};

// Columns of a Parquet file as lines of JSON, one object per row, so that later stages need no special case.

/// Strings of `columns`; nulls are omitted from their row. Throws Error::io, Error::data (damaged; a column that is
/// missing or has no strings; a text longer than `most_bytes`; an unsupported encoding or compression, by its name).
std::unique_ptr<ByteSource> open_parquet(const std::string& path, const std::vector<std::string>& columns,
                                         uint64_t most_bytes = UINT64_MAX);

}  // namespace trireme
