#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "text/unicode.h"

namespace trireme {
namespace {

/// First byte that begins a code point from U+0300 on: below it NFC changes nothing.
constexpr uint8_t kFirstCombining = 0xCC;

/// Unicode normal forms. Bytes that are no UTF-8 stay where they are.
class NormalForm final : public Normalizer {
 public:
  NormalForm(bool compose, bool compatible) : compose_(compose), compatible_(compatible) {}

  bool keeps(std::string_view text) const override {
    const uint8_t limit = compose_ && !compatible_ ? kFirstCombining : 0x80;
    return std::all_of(text.begin(), text.end(), [limit](char c) { return static_cast<uint8_t>(c) < limit; });
  }

  bool cuts_before_space() const override { return true; }

  void apply(std::string& text) const override {
    std::string out;
    out.reserve(text.size());
    const char* const end = text.data() + text.size();
    for (const char* p = text.data(); p < end;) {
      const char* stop = p;
      while (stop < end) {
        const Decoded next = decode_utf8(stop, end);
        if (next.code == kInvalidCode) break;
        stop += next.length;
      }
      normalize(std::string_view(p, static_cast<size_t>(stop - p)), out);
      if (stop < end) out.push_back(*stop++);
      p = stop;
    }
    text = std::move(out);
  }

 private:
  void normalize(std::string_view valid, std::string& out) const {
    std::vector<utf8proc_int32_t> codes(valid.size() + 1);
    const auto options =
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible_ ? UTF8PROC_COMPAT : 0));
    const auto decompose = [&] {
      return utf8proc_decompose(reinterpret_cast<const utf8proc_uint8_t*>(valid.data()),
                                static_cast<utf8proc_ssize_t>(valid.size()), codes.data(),
                                static_cast<utf8proc_ssize_t>(codes.size()), options);
    };
    utf8proc_ssize_t count = decompose();
    if (count > static_cast<utf8proc_ssize_t>(codes.size())) {
      codes.resize(static_cast<size_t>(count));
      count = decompose();
    }
    require(count >= 0, ErrorKind::data, "cannot normalize text: {}", utf8proc_errmsg(count));
    if (compose_) {
      const auto compose = static_cast<utf8proc_option_t>(options | UTF8PROC_COMPOSE);
      count = utf8proc_normalize_utf32(codes.data(), count, compose);
    }
    for (utf8proc_ssize_t i = 0; i < count; ++i) append_utf8(static_cast<char32_t>(codes[static_cast<size_t>(i)]), out);
  }

  bool compose_, compatible_;
};

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const JsonObject& element) {
  const std::string type = element.string("type");
  if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    element.allow_only({"type"});
    return std::make_unique<NormalForm>(type.back() == 'C', type.size() == 4);
  }
  fail(ErrorKind::data, "{}: the normalizer \"{}\" is not implemented", element.place(), type);
}

}  // namespace trireme
