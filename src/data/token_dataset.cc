#include "data/token_dataset.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/hash.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are mapped as they are");

/// Checks the file itself without a sidecar.
TokenLayout layout_of(const MappedFile& file, const std::optional<TokenSidecar>& sidecar, bool trust) {
  require(!file.text().empty(), ErrorKind::data, "{} is empty; prepare the data again", file.path());
  if (sidecar) return headerless_tokens(file.text(), element_bytes(*sidecar));
  return trust ? headerless_tokens(file.text(), 2) : identify_tokens(file.text(), file.path());
}

void check_size(const std::string& path, const TokenLayout& layout, const std::optional<TokenSidecar>& sidecar) {
  if (sidecar) {
    require(layout.bytes == sidecar->tokens * layout.width, ErrorKind::data,
            "{} has {} bytes, but {} declares {} tokens of {} bits, which are {} bytes: one of them was truncated or "
            "replaced; prepare the data again",
            path, layout.bytes, sidecar_path(path), sidecar->tokens, 8 * layout.width, sidecar->tokens * layout.width);
  }
  require(layout.bytes % layout.width == 0, ErrorKind::data,
          "{} has {} bytes, an odd number, but tokens have two bytes each: it was truncated or is not a token file",
          path, layout.bytes);
}

}  // namespace

TokenDataset::TokenDataset(const std::string& path, uint64_t vocabulary, bool verify, const BeforeBlock& before,
                           bool trust)
    : file_(path), sidecar_(read_sidecar(path)) {
  const TokenLayout layout = layout_of(file_, sidecar_, trust);
  check_size(path, layout, sidecar_);
  format_ = layout.format;
  const auto ids = file_.bytes().subspan(layout.offset, layout.bytes);
  tokens_ = {ids, layout.width};
  vocabulary_ = vocabulary > 0 || !sidecar_ ? vocabulary : sidecar_->vocabulary;
  check_blocks(path, ids, sidecar_,
               {.width = layout.width, .vocabulary = vocabulary, .trust = trust, .all = verify, .before = before});
}

uint64_t data_hash(std::span<const std::byte> bytes, const std::optional<TokenSidecar>& sidecar,
                   const BeforeBlock& before) {
  if (sidecar && sidecar->block_bytes == kSidecarBlockBytes)
    return xxh3(std::as_bytes(std::span(sidecar->block_hashes)));
  BlockHasher hasher;
  for (size_t at = 0; at < bytes.size(); at += kSidecarBlockBytes) {
    if (before) before();
    hasher.append(bytes.subspan(at, std::min<size_t>(kSidecarBlockBytes, bytes.size() - at)));
  }
  const std::vector<uint64_t> blocks = hasher.finish();
  return xxh3(std::as_bytes(std::span(blocks)));
}

uint64_t data_hash(const TokenDataset& dataset, const BeforeBlock& before) {
  return data_hash(dataset.tokens().bytes(), dataset.sidecar(), before);
}

}  // namespace trireme
