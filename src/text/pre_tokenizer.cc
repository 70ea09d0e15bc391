#include "text/pre_tokenizer.h"

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/gpt2_scanner.h"

namespace trireme {
namespace {

/// A prefix space, GPT-2's pattern, and bytes spelled in its alphabet: each of the three can be off.
class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(bool prefix_space, bool pattern, bool spell)
      : prefix_space_(prefix_space), pattern_(pattern), spell_(spell) {}

  void split(std::string_view text, bool at_start, PieceSink& sink) const override {
    std::string prefixed;
    if (prefix_space_ && !text.starts_with(' ')) {
      prefixed.reserve(text.size() + 1);
      prefixed.append(" ").append(text);
      text = prefixed;
    }
    if (!pattern_) return give(text, at_start, sink);
    for (Gpt2Scanner scanner(text); !scanner.done(); at_start = false) give(scanner.next(), at_start, sink);
  }

  bool cuts_before_space() const override { return !prefix_space_; }
  bool is_plain_gpt2() const override { return pattern_ && !prefix_space_ && !spell_; }

 private:
  void give(std::string_view piece, bool at_start, PieceSink& sink) const {
    if (spell_)
      sink.piece(spell_bytes(piece), at_start);
    else
      sink.piece(piece, at_start);
  }

  bool prefix_space_, pattern_, spell_;
};

}  // namespace

PreTokenizerResult make_pre_tokenizer(const JsonObject& element, bool raw_bytes_possible) {
  const std::string type = element.string("type");
  if (type == "ByteLevel") {
    element.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return {std::make_unique<ByteLevel>(element.boolean("add_prefix_space", true), element.boolean("use_regex", true),
                                        !raw_bytes_possible),
            raw_bytes_possible};
  }
  fail(ErrorKind::data, "{}: the pre-tokenizer \"{}\" is not implemented", element.place(), type);
}

}  // namespace trireme
