#include "text/decoder.h"

#include "base/error.h"
#include "text/byte_alphabet.h"

namespace trireme {
namespace {

/// Tokens spelled in GPT-2's byte alphabet become their bytes; a token with other characters stays as it is.
class ByteLevelDecoder final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::string bytes;
      if (read_spelling(token, bytes)) token = std::move(bytes);
    }
  }
  bool is_per_token() const override { return true; }
};

/// Joins all tokens into one.
class Fuse final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string joined;
    for (const std::string& token : tokens) joined += token;
    tokens.assign(1, std::move(joined));
  }
  bool is_per_token() const override { return true; }
};

}  // namespace

std::unique_ptr<Decoder> make_decoder(const JsonObject& element) {
  const std::string type = element.string("type");
  if (type == "ByteLevel") {
    element.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return std::make_unique<ByteLevelDecoder>();
  }
  if (type == "Fuse") {
    element.allow_only({"type"});
    return std::make_unique<Fuse>();
  }
  fail(ErrorKind::data, "{}: the decoder \"{}\" is not implemented", element.place(), type);
}

}  // namespace trireme
