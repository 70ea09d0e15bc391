#include "data/file_signature.h"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <cstring>

#include "data/pickle_shape.h"
#include "text/unicode.h"

namespace trireme {
namespace {

using namespace std::string_view_literals;

constexpr size_t kLookedAt = size_t{64} << 10;
constexpr const char* kUnpack = "unpack it first";
constexpr const char* kPrepare =
    "`trireme prepare --input FILE --tokenizer TOKENIZER --output FOLDER` makes token files from text";
constexpr const char* kNotData = "name the token file that `trireme prepare` wrote";

uint8_t byte_at(std::string_view file, size_t at) { return at < file.size() ? static_cast<uint8_t>(file[at]) : 0; }

template <class Unsigned>
Unsigned number_at(std::string_view file, size_t at) {
  Unsigned value = 0;
  if (at + sizeof value <= file.size()) std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

/// Whether the bytes from `at` on are `expected`.
bool has(std::string_view file, size_t at, std::string_view expected) {
  return file.size() >= at && file.substr(at).starts_with(expected);
}

/// Method, flags, level and system are one byte each, of few values.
bool is_gzip(std::string_view file) {
  const uint8_t flags = byte_at(file, 3), level = byte_at(file, 8), system = byte_at(file, 9);
  return file.size() >= 18 && has(file, 0, "\x1f\x8b\x08"sv) && flags < 32 &&
         (level == 0 || level == 2 || level == 4) && (system <= 13 || system == 255);
}

bool is_zip(std::string_view file) {
  if (has(file, 0, "PK\5\6"sv)) return file.size() == 22;
  const auto needed = number_at<uint16_t>(file, 4), method = number_at<uint16_t>(file, 8);
  return file.size() >= 30 && has(file, 0, "PK\3\4"sv) && needed <= 63 && method <= 99 &&
         number_at<uint16_t>(file, 26) < 4096;
}

bool is_safetensors(std::string_view file) {
  const auto header = number_at<uint64_t>(file, 0);
  return file.size() > 8 && header >= 2 && header <= file.size() - 8 && has(file, 8, "{\""sv);
}

bool is_elf(std::string_view file) {
  const auto one_or_two = [&](size_t at) { return byte_at(file, at) == 1 || byte_at(file, at) == 2; };
  return has(file, 0,
             "\x7f"
             "ELF"sv) &&
         one_or_two(4) && one_or_two(5) && byte_at(file, 6) == 1;
}

/// A message of Arrow's stream format: a length, then a table that begins with a small offset.
bool is_arrow_stream(std::string_view file) {
  const auto length = number_at<uint32_t>(file, 4);
  return has(file, 0, "\xff\xff\xff\xff"sv) && length > 0 && length % 8 == 0 && length < file.size() &&
         number_at<uint32_t>(file, 8) < 256;
}

bool is_bzip2(std::string_view file) {
  return has(file, 0, "BZh"sv) && byte_at(file, 3) >= '1' && byte_at(file, 3) <= '9' && has(file, 4, "1AY&SY"sv);
}

bool is_tar(std::string_view file) { return has(file, 257, "ustar"sv); }
bool is_lz4(std::string_view file) { return has(file, 0, "\x04\x22\x4d\x18"sv) && byte_at(file, 4) >> 6 == 1; }
bool is_parquet(std::string_view file) { return file.size() > 12 && has(file, 0, "PAR1"sv) && file.ends_with("PAR1"); }
bool is_gguf(std::string_view file) {
  const auto version = number_at<uint32_t>(file, 4);
  return has(file, 0, "GGUF"sv) && version > 0 && version < 16;
}
bool is_avro(std::string_view file) {
  return has(file, 0, "Obj\1"sv) && file.substr(0, 4096).find("avro.") != std::string_view::npos;
}
bool is_gif(std::string_view file) { return has(file, 0, "GIF87a"sv) || has(file, 0, "GIF89a"sv); }
bool is_riff(std::string_view file) {
  return has(file, 0, "RIFF"sv) && (has(file, 8, "WAVE"sv) || has(file, 8, "WEBP"sv) || has(file, 8, "AVI "sv));
}
bool is_pdf(std::string_view file) { return has(file, 0, "%PDF-1"sv) || has(file, 0, "%PDF-2"sv); }
bool is_jpeg(std::string_view file) { return has(file, 0, "\xff\xd8\xff"sv) && byte_at(file, 3) >= 0xc0; }

struct Known {
  const char* what;
  bool (*is)(std::string_view file);
  const char* todo;
};

template <size_t size>
struct Literal {
  char bytes[size];
  constexpr Literal(const char (&text)[size]) { std::copy_n(text, size, bytes); }
};

/// Whether a file begins with the complete `magic`.
template <Literal magic>
bool begins(std::string_view file) {
  return file.starts_with(std::string_view(magic.bytes, sizeof magic.bytes - 1));
}

constexpr Known kKnown[] = {
    {"a gzip file", is_gzip, kUnpack},
    {"a bzip2 file", is_bzip2, kUnpack},
    {"an xz file",
     begins<"\xfd"
            "7zXZ\0">,
     kUnpack},
    {"a zstd file", begins<"\x28\xb5\x2f\xfd">, kUnpack},
    {"an lz4 file", is_lz4, kUnpack},
    {"a 7z archive", begins<"7z\xbc\xaf\x27\x1c">, kUnpack},
    {"a rar archive", begins<"Rar!\x1a\x07">, kUnpack},
    {"a tar archive", is_tar, kUnpack},
    {"a zip archive (as PyTorch's files and .npz are)", is_zip, kNotData},
    {"a safetensors file, which holds weights", is_safetensors, kNotData},
    {"a GGUF file, which holds a model", is_gguf, kNotData},
    {"an HDF5 file", begins<"\x89HDF\r\n\x1a\n">, kNotData},
    {"a Parquet file", is_parquet, kPrepare},
    {"an Arrow file", begins<"ARROW1\0\0">, "write its texts to Parquet or jsonl, which `trireme prepare` reads"},
    {"an Arrow stream, as `datasets` stores it", is_arrow_stream,
     "write its texts to Parquet or jsonl, which `trireme prepare` reads"},
    {"an Avro file", is_avro, kNotData},
    {"an SQLite database", begins<"SQLite format 3\0">, kNotData},
    {"the index of a Megatron or NeoX indexed dataset", begins<"MMIDIDX\0\0">,
     "name the dataset by its prefix, without .idx; FILE.bin must be beside it"},
    {"the index of an old indexed dataset of fairseq", begins<"TNTIDX\0\0">,
     "prepare the text again with `trireme prepare --format megatron`"},
    {"a program or library (ELF)", is_elf, kNotData},
    {"a picture (PNG)", begins<"\x89PNG\r\n\x1a\n">, kNotData},
    {"a picture (JPEG)", is_jpeg, kNotData},
    {"a picture (GIF)", is_gif, kNotData},
    {"a RIFF file (sound or picture)", is_riff, kNotData},
    {"a PDF document", is_pdf, "write its text to a .txt file for `trireme prepare`"},
    {"a SentencePiece vocabulary", begins<"\n\x0e\n\x05<unk>">, kNotData},
    {"a Python pickle", is_pickle, kNotData},
};

bool has_ending(const std::string& path, std::initializer_list<std::string_view> endings) {
  return std::ranges::any_of(endings, [&](std::string_view ending) { return path.ends_with(ending); });
}

/// Valid UTF-8 without control characters except white space; the last character of `head` may be incomplete.
bool is_printable(std::string_view head, bool cut) {
  const char* const end = head.data() + head.size();
  for (const char* p = head.data(); p < end;) {
    const Decoded next = decode_utf8(p, end);
    if (next.code == kInvalidCode) return cut && end - p < 4;
    if ((next.code < 32 && (next.code < 9 || next.code > 13)) || (next.code >= 127 && next.code < 160)) return false;
    p += next.length;
  }
  return true;
}

FileSignature text_kind(std::string_view file) {
  const size_t first = std::min(file.find_first_not_of(" \t\r\n\xef\xbb\xbf"), file.size());
  const std::string_view text = file.substr(first);
  if (text.starts_with("version https://git-lfs"))
    return {"a Git LFS pointer", "get the file itself with `git lfs pull`"};
  if (text.starts_with("<!DOCTYPE") || text.starts_with("<!doctype") || text.starts_with("<html"))
    return {"a web page", "download the file itself"};
  if (text.starts_with('{') || text.starts_with('['))
    return {"text (JSON)",
            "`trireme prepare --input FILE.jsonl --tokenizer TOKENIZER --output FOLDER` makes token files, with one "
            "document per line"};
  return {"text", kPrepare};
}

/// UTF-16 begins with a mark that is id 65279 or 65534, and then has mostly small code units.
bool is_utf16(std::string_view file) {
  const bool little = has(file, 0, "\xff\xfe"sv), big = has(file, 0, "\xfe\xff"sv);
  if ((!little && !big) || file.size() < 8) return false;
  const size_t size = std::min(file.size(), kLookedAt) / 2 * 2;
  for (size_t at = 2; at < size; at += 2) {
    const unsigned first = byte_at(file, at), second = byte_at(file, at + 1);
    const unsigned unit = little ? first | second << 8 : second | first << 8;
    if (unit < 9 || (unit > 13 && unit < 32)) return false;
  }
  return true;
}

}  // namespace

bool looks_like_text(std::string_view file) {
  constexpr size_t kFewest = 20, kDistinct = 6;  // of bytes: 16-bit ids match by chance once in 10^8 files
  if (file.size() < kFewest) return false;
  const std::string_view head = file.substr(0, kLookedAt);
  std::bitset<256> seen;
  for (const char c : head) seen.set(static_cast<uint8_t>(c));
  return seen.count() >= kDistinct && is_printable(head, head.size() < file.size());
}

std::optional<FileSignature> signature_of(std::string_view file, const std::string& path) {
  for (const Known& known : kKnown) {
    if (known.is(file)) return FileSignature{known.what, known.todo};
  }
  if (is_utf16(file)) return FileSignature{"text in UTF-16", kPrepare};
  const bool named_so = has_ending(path, {".txt", ".json", ".jsonl", ".csv", ".tsv", ".md", ".yaml", ".yml", ".py"});
  const bool small_text = named_so && !file.empty() && is_printable(file.substr(0, kLookedAt), file.size() > kLookedAt);
  if (small_text || looks_like_text(file)) return text_kind(file);
  return std::nullopt;
}

}  // namespace trireme
