#include "data/prepare/input_parts.h"

#include "base/error.h"
#include "base/log.h"
#include "data/prepare/compressed_source.h"
#include "data/prepare/parquet_source.h"
#include "data/prepare/tar_reader.h"

namespace trireme {
namespace {

/// The current file of an archive's reader.
class MemberSource final : public ByteSource {
 public:
  explicit MemberSource(std::shared_ptr<TarReader> archive) : archive_(std::move(archive)) {}
  size_t read(char* to, size_t size) override { return archive_->read(to, size); }
  uint64_t consumed() const override { return archive_->consumed(); }

 private:
  std::shared_ptr<TarReader> archive_;
};

bool is_stream(InputKind kind) { return kind == InputKind::text || kind == InputKind::json_lines; }

}  // namespace

InputParts::InputParts(const std::vector<InputFile>& files, std::vector<std::string> columns, InputPlace from,
                       uint64_t most_bytes)
    : files_(files), columns_(std::move(columns)), most_bytes_(most_bytes), skip_members_(from.member) {
  for (; file_ < from.file && file_ < files_.size(); ++file_) earlier_ += files_[file_].bytes;
}

InputParts::~InputParts() = default;

void InputParts::set_part(std::string name, InputKind kind) {
  name_ = std::make_shared<const std::string>(std::move(name));
  kind_ = kind;
}

void InputParts::open_file() {
  const InputFile& file = files_[file_];
  open_ = true;
  member_ = unread_members_ = 0;
  switch (file.kind) {
    case InputKind::archive:
      archive_ = std::make_shared<TarReader>(open_source(file.path), file.path);
      return;
    case InputKind::parquet:
      source_ = open_parquet(file.path, columns_, most_bytes_);
      return set_part(file.path, InputKind::json_lines);
    case InputKind::text:
    case InputKind::json_lines:
      source_ = as_utf8(open_source(file.path), file.encoding, file.path, file.kind == InputKind::json_lines);
      return set_part(file.path, file.kind);
  }
}

void InputParts::close_file() {
  if (unread_members_ > 0)
    log::info("{}: skipped {} of its files, which are neither text nor jsonl", files_[file_].path, unread_members_);
  if (archive_ && member_ == 0 && unread_members_ == 0) log::warning("{} has no files", files_[file_].path);
  earlier_ += files_[file_].bytes;
  source_.reset();
  archive_.reset();
  open_ = false;
  skip_members_ = 0;
  ++file_;
}

bool InputParts::next_member() {
  if (source_) ++member_;  // the one before
  source_.reset();
  while (archive_->next()) {
    const std::optional<InputKind> kind = kind_of(archive_->name());
    if (!kind || !is_stream(*kind)) {
      ++unread_members_;
      continue;
    }
    if (member_ < skip_members_) {
      ++member_;
      continue;
    }
    set_part(files_[file_].path + ":" + archive_->name(), *kind);
    source_ = as_utf8(decompressed(std::make_unique<MemberSource>(archive_), archive_->name()), files_[file_].encoding,
                      *name_, *kind == InputKind::json_lines);
    return true;
  }
  return false;
}

bool InputParts::next() {
  while (file_ < files_.size()) {
    if (!open_) {
      open_file();
      if (!archive_) return true;
    } else if (!archive_) {
      close_file();
      continue;
    }
    if (next_member()) return true;
    close_file();
  }
  return false;
}

uint64_t InputParts::consumed() const {
  if (archive_) return earlier_ + archive_->consumed();
  return earlier_ + (source_ ? source_->consumed() : 0);
}

}  // namespace trireme
