#include "data/token_dataset.h"

#include <bit>

#include "base/error.h"
#include "data/token_layout.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are mapped as they are");

/// Checks the file itself without a sidecar.
TokenLayout layout_of(const MappedFile& file, const std::optional<TokenSidecar>& sidecar, bool trust) {
  require(!file.text().empty(), ErrorKind::data, "{} is empty; prepare the data again", file.path());
  return sidecar || trust ? trusted_tokens(file.text()) : identify_tokens(file.text(), file.path());
}

void check_size(const std::string& path, uint64_t bytes, const std::optional<TokenSidecar>& sidecar) {
  if (sidecar) {
    const std::string beside = sidecar_path(path);
    require(sidecar->dtype == "uint16", ErrorKind::data,
            "{}: the elements of {} are {}; training needs uint16 token files", beside, path, sidecar->dtype);
    require(bytes == sidecar->tokens * sizeof(uint16_t), ErrorKind::data,
            "{} has {} bytes, but {} declares {} tokens, which are {} bytes: one of them was truncated or replaced; "
            "prepare the "
            "data again",
            path, bytes, beside, sidecar->tokens, sidecar->tokens * sizeof(uint16_t));
  }
  require(bytes % sizeof(uint16_t) == 0, ErrorKind::data,
          "{} has {} bytes, an odd number, but tokens have two bytes each: it was truncated or is not a token file",
          path, bytes);
}

}  // namespace

TokenDataset::TokenDataset(const std::string& path, uint64_t vocabulary, bool verify, const BeforeBlock& before,
                           bool trust)
    : file_(path), sidecar_(read_sidecar(path)) {
  const TokenLayout layout = layout_of(file_, sidecar_, trust);
  check_size(path, layout.bytes, sidecar_);
  format_ = layout.format;
  const auto ids = file_.bytes().subspan(layout.offset, layout.bytes);
  tokens_ = {reinterpret_cast<const uint16_t*>(ids.data()), ids.size() / sizeof(uint16_t)};
  vocabulary_ = vocabulary > 0 || !sidecar_ ? vocabulary : sidecar_->vocabulary;
  check_blocks(path, ids, sidecar_,
               {.width = sizeof(uint16_t), .vocabulary = vocabulary, .all = verify, .before = before});
}

}  // namespace trireme
