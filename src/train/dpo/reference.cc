#include "train/dpo/reference.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

namespace trireme {
namespace {

constexpr std::string_view kReferenceMagic = "trireme reference 1\n";

uint64_t hash_of_text(std::string_view text) { return xxh3(std::as_bytes(std::span(text))); }

void put(std::string& out, uint64_t value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof bytes);
}

void put(std::string& out, const std::vector<double>& values) {
  put(out, values.size());
  if (!values.empty()) out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
}

/// Takes values from the front of a text; false: it is too short.
class Taker {
 public:
  explicit Taker(std::string_view text) : rest_(text) {}
  bool take(uint64_t& value) {
    if (rest_.size() < sizeof value) return false;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return true;
  }
  bool take(std::string& text) {
    uint64_t size = 0;
    if (!take(size) || size > rest_.size()) return false;
    text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }
  bool take(std::vector<double>& values) {
    uint64_t count = 0;
    if (!take(count) || count > rest_.size() / sizeof(double)) return false;
    values.resize(count);
    if (count > 0) std::memcpy(values.data(), rest_.data(), count * sizeof(double));
    rest_.remove_prefix(count * sizeof(double));
    return true;
  }
  bool ended() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

std::string text_of(const Reference& reference) {
  std::string out(kReferenceMagic);
  put(out, reference.pairs.size());
  out += reference.pairs;
  put(out, reference.train);
  put(out, reference.validation);
  return out;
}

}  // namespace

std::string reference_path(const std::string& run_dir) { return run_dir + "/reference.bin"; }

std::string hash_of(const Reference& reference) { return hex64(hash_of_text(text_of(reference))); }

uint64_t bytes_of(const Reference& reference) {
  return (reference.train.size() + reference.validation.size()) * sizeof(double);
}

void write_reference(const std::string& path, const Reference& reference) {
  std::string text = text_of(reference);
  put(text, hash_of_text(text));
  write_text(path, text);
}

std::optional<Reference> read_reference(const std::string& path) {
  if (!std::filesystem::exists(path)) return {};
  const std::string text = read_text(path);
  Reference made;
  bool whole = text.size() >= kReferenceMagic.size() + sizeof(uint64_t) && text.starts_with(kReferenceMagic);
  if (whole) {
    const std::string_view body = std::string_view(text).substr(0, text.size() - sizeof(uint64_t));
    uint64_t hash = 0;
    whole = Taker(std::string_view(text).substr(body.size())).take(hash) && hash == hash_of_text(body);
    Taker from(body.substr(kReferenceMagic.size()));
    whole = whole && from.take(made.pairs) && from.take(made.train) && from.take(made.validation) && from.ended();
  }
  require(whole, ErrorKind::data,
          "{} is damaged: its bytes do not have the hash at its end; copy the run folder again, or start a new run in "
          "another folder",
          path);
  return made;
}

}  // namespace trireme
