#include "data/prepare/prepare_outputs.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "data/sidecar.h"

namespace trireme {

namespace fs = std::filesystem;
namespace {

/// A link stays, and what it names is replaced, on whatever disk that is.
void put(const fs::path& made, const fs::path& to) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(to, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    AtomicFile copy(to.string());
    copy.write(MappedFile(made.string()).bytes());
    copy.commit();
    fs::remove(made);
    return;
  }
  fs::rename(made, to, error);
  require(!error, ErrorKind::io, "cannot move {} to {}: {}", made.string(), to.string(), error.message());
}

}  // namespace

PrepareOutputs::PrepareOutputs(fs::path folder, fs::path making)
    : folder_(std::move(folder)), making_(std::move(making)) {
  fs::remove_all(making_);
  fs::create_directories(making_);
}

void PrepareOutputs::publish() const {
  for (const std::string& name : old_) {
    const fs::path old = folder_ / name;
    if (!fs::exists(old)) continue;
    log::warning("removed {} of an earlier preparation: this one does not write it", old.string());
    fs::remove(old);
    fs::remove(sidecar_path(old.string()));
  }
  for (const auto& entry : fs::directory_iterator(making_)) put(entry.path(), folder_ / entry.path().filename());
  sync_folder(folder_.string());
}

TokenId end_of_text_id(const Tokenizer& tokenizer, const std::string& named, const std::string& path,
                       const std::string& purpose) {
  if (named.empty() && path == kCharLevelTokenizer) return 0;  // NeoX's choice
  const auto id = named.empty() ? tokenizer.end_of_text() : tokenizer.token_to_id(named);
  require(id.has_value(), ErrorKind::data, "tokenizer {} has no {} {}{}", path,
          named.empty() ? "end-of-text token" : fmt::format("token \"{}\"", named), purpose,
          named.empty() ? "; name one with --end-of-text TOKEN" : "");
  return *id;
}

}  // namespace trireme
