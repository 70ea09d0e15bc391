#include "text/pipeline/normalizer.h"

#include <utf8proc.h>

#include <cstring>
#include <optional>
#include <vector>

#include "base/error.h"
#include "text/base64.h"
#include "text/unicode.h"

namespace trireme {
namespace {

/// The table: a size, a double-array trie of 32-bit units, then the replacements, each ended by a zero byte. A unit has
/// its label in the low 8 bits (a leaf: bit 31 set and the value below), bit 8 "has a leaf", bit 9 "the offset counts
/// in 256s", the offset from bit 10 on.
class CharsMap {
 public:
  CharsMap(std::string blob, const std::string& where) {
    uint32_t trie_bytes = 0;
    require(blob.size() >= sizeof trie_bytes, ErrorKind::data, "{}: the table is truncated", where);
    std::memcpy(&trie_bytes, blob.data(), sizeof trie_bytes);
    require(trie_bytes % 4 == 0 && trie_bytes > 0 && trie_bytes <= blob.size() - sizeof trie_bytes, ErrorKind::data,
            "{}: the table declares a trie of {} bytes, but has {}", where, trie_bytes,
            blob.size() - sizeof trie_bytes);
    units_.resize(trie_bytes / 4);
    std::memcpy(units_.data(), blob.data() + sizeof trie_bytes, trie_bytes);
    replacements_ = blob.substr(sizeof trie_bytes + trie_bytes);
  }

  /// Replacement of the shortest entry that is a prefix of `text`.
  std::optional<std::string_view> find(std::string_view text) const {
    size_t node = offset(units_[0]);
    for (const char c : text) {
      const auto byte = static_cast<uint8_t>(c);
      node ^= byte;
      if (byte == 0 || node >= units_.size() || label(units_[node]) != byte) return std::nullopt;
      const uint32_t unit = units_[node];
      node ^= offset(unit);
      if ((unit >> 8 & 1) == 0) continue;
      if (node >= units_.size()) return std::nullopt;
      const size_t at = units_[node] & 0x7FFFFFFF;
      if (at >= replacements_.size()) return std::nullopt;
      return std::string_view(replacements_).substr(at, replacements_.find('\0', at) - at);
    }
    return std::nullopt;
  }

 private:
  static uint32_t label(uint32_t unit) { return unit & (1u << 31 | 0xFF); }
  static size_t offset(uint32_t unit) { return size_t{unit >> 10} << ((unit & 1u << 9) >> 6); }

  std::vector<uint32_t> units_;
  std::string replacements_;
};

constexpr size_t kLongestGrapheme = 5;  // longer clusters are looked up character by character, as SentencePiece does

class PrecompiledNormalizer final : public Normalizer {
 public:
  explicit PrecompiledNormalizer(CharsMap map) : map_(std::move(map)) {}
  bool keeps(std::string_view) const override { return false; }

  void apply(std::string& text, const TextLimit& limit, Origins* origins) const override {
    Rewriting rewriting(text, origins);
    for_each_valid_run(text, [&](std::string_view run, bool valid) {
      if (valid)
        rewrite_run(run, limit, rewriting);
      else
        rewriting.keep(run.size());
    });
    text = std::move(rewriting.out);
  }

 private:
  void rewrite_run(std::string_view run, const TextLimit& limit, Rewriting& to) const {
    size_t begin = 0;
    utf8proc_int32_t state = 0;
    Decoded before = decode_utf8(run.data(), run.data() + run.size());
    for (size_t at = before.length; at < run.size();) {
      const Decoded next = decode_utf8(run.data() + at, run.data() + run.size());
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before.code),
                                           static_cast<utf8proc_int32_t>(next.code), &state)) {
        rewrite_grapheme(run.substr(begin, at - begin), to);
        limit.check(to.out.size());
        begin = at;
      }
      at += next.length;
      before = next;
    }
    rewrite_grapheme(run.substr(begin), to);
  }

  void rewrite_grapheme(std::string_view grapheme, Rewriting& to) const {
    const auto replaced = [&](std::string_view part) {
      const auto replacement = map_.find(part);
      if (!replacement) return false;
      to.out += *replacement;
      to.took(part.size());
      return true;
    };
    if (grapheme.size() <= kLongestGrapheme && replaced(grapheme)) return;
    while (!grapheme.empty()) {
      const std::string_view one =
          grapheme.substr(0, decode_utf8(grapheme.data(), grapheme.data() + grapheme.size()).length);
      if (!replaced(one)) to.keep(one.size());
      grapheme.remove_prefix(one.size());
    }
  }

  CharsMap map_;
};

}  // namespace

std::unique_ptr<Normalizer> make_precompiled_normalizer(const JsonObject& element) {
  element.allow_only({"type", "precompiled_charsmap"});
  std::optional<std::string> blob = decode_base64(element.string("precompiled_charsmap"));
  require(blob.has_value(), ErrorKind::data, "{}: \"precompiled_charsmap\" is not base64", element.place());
  return std::make_unique<PrecompiledNormalizer>(CharsMap(std::move(*blob), element.place()));
}

}  // namespace trireme
