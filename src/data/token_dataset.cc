#include "data/token_dataset.h"

#include <bit>

#include "base/error.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are mapped as they are");

void check_size(const std::string& path, uint64_t bytes, const std::optional<TokenSidecar>& sidecar) {
  require(bytes > 0, ErrorKind::data, "{} is empty; prepare the data again", path);
  if (sidecar) {
    const std::string beside = sidecar_path(path);
    require(sidecar->dtype == "uint16", ErrorKind::data,
            "{} says that {} holds {} elements; training reads uint16 token files", beside, path, sidecar->dtype);
    require(bytes == sidecar->tokens * sizeof(uint16_t), ErrorKind::data,
            "{} has {} bytes, but {} says {} tokens, which are {} bytes: one of them was cut or replaced; prepare the "
            "data again",
            path, bytes, beside, sidecar->tokens, sidecar->tokens * sizeof(uint16_t));
  }
  require(bytes % sizeof(uint16_t) == 0, ErrorKind::data,
          "{} has {} bytes, an odd number, but tokens have two each: it was cut, or is no token file", path, bytes);
}

}  // namespace

TokenDataset::TokenDataset(const std::string& path, uint64_t vocabulary, bool verify, const BeforeBlock& before)
    : file_(path), sidecar_(read_sidecar(path)) {
  check_size(path, file_.bytes().size(), sidecar_);
  tokens_ = {reinterpret_cast<const uint16_t*>(file_.bytes().data()), file_.bytes().size() / sizeof(uint16_t)};
  vocabulary_ = vocabulary > 0 || !sidecar_ ? vocabulary : sidecar_->vocabulary;
  check_blocks(path, file_.bytes(), sidecar_,
               {.width = sizeof(uint16_t), .vocabulary = vocabulary, .all = verify, .before = before});
}

}  // namespace trireme
