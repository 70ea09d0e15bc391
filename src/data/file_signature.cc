#include "data/file_signature.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/unicode.h"

namespace trireme {
namespace {

// Recognizes a Python pickle by walking its instructions.

/// For protocols 2 to 5: the first instructions are valid and their arguments fit. 16-bit ids match by chance once in
/// 10^9 files.
bool is_pickle(std::string_view file);

/// The encoding of an instruction's argument: its length, or how to find it.
enum : int8_t { kUnknown = -1, kLine = -2, kTwoLines = -3, kSize1 = -4, kSize4 = -5, kSize8 = -6 };

constexpr std::array<int8_t, 256> kArguments = [] {
  std::array<int8_t, 256> table{};
  table.fill(kUnknown);
  const auto set = [&](std::string_view codes, int8_t argument) {
    for (const char code : codes) table[static_cast<uint8_t>(code)] = argument;
  };
  set("(.012NRabd}el]oQst)u\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94\x97\x98", 0);
  set("Khq\x80\x82", 1);
  set("M\x83", 2);
  set("Jjr\x84", 4);
  set("G\x95", 8);
  set("ISVFLPpg", kLine);
  set("ci", kTwoLines);
  set("UC\x8a\x8c", kSize1);
  set("XTB\x8b", kSize4);
  set("\x8d\x8e\x96", kSize8);
  return table;
}();

uint64_t number(std::string_view rest, size_t bytes) {
  uint64_t value = 0;
  if (rest.size() < bytes) return UINT64_MAX;
  std::memcpy(&value, rest.data(), bytes);
  return value;
}

/// Bytes of an argument at the beginning of `rest`; npos if it does not fit.
size_t argument_bytes(int8_t argument, std::string_view rest) {
  const auto sized = [&](size_t width) {
    const uint64_t size = number(rest, width);
    return size > rest.size() - std::min(width, rest.size()) ? std::string::npos : width + size;
  };
  switch (argument) {
    case kLine:
    case kTwoLines: {
      const size_t first = rest.substr(0, 256).find('\n');
      if (argument == kLine || first == std::string::npos) return first == std::string::npos ? first : first + 1;
      const size_t second = rest.substr(0, 512).find('\n', first + 1);
      return second == std::string::npos ? second : second + 1;
    }
    case kSize1:
      return sized(1);
    case kSize4:
      return sized(4);
    case kSize8:
      return sized(8);
    default:
      return argument < 0 || rest.size() < static_cast<size_t>(argument) ? std::string::npos
                                                                         : static_cast<size_t>(argument);
  }
}

bool is_pickle(std::string_view file) {
  constexpr int kWalked = 24;  // of 256 codes about 70 are instructions
  if (file.size() < 4 || file[0] != '\x80' || file[1] < 2 || file[1] > 5) return false;
  file.remove_prefix(2);
  for (int i = 0; i < kWalked; ++i) {
    if (file.empty()) return false;
    const char code = file.front();
    file.remove_prefix(1);
    if (code == '.') return i > 0 && (file.empty() || file.front() == '\x80');  // torch.save() wrote several
    const size_t bytes = argument_bytes(kArguments[static_cast<uint8_t>(code)], file);
    if (bytes == std::string::npos) return false;
    file.remove_prefix(bytes);
  }
  return true;
}

using namespace std::string_view_literals;

constexpr size_t kLookedAt = size_t{64} << 10;
constexpr const char* kUnpack = "unpack it first";
constexpr const char* kPrepare =
    "`trireme prepare --input FILE --tokenizer TOKENIZER --output FOLDER` makes token files from text";
constexpr const char* kAgain = "prepare its text again: `trireme prepare` reads txt, jsonl and Parquet";
constexpr const char* kTextsToJsonl = "write its texts to Parquet or jsonl, which `trireme prepare` reads";
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

bool is_orc(std::string_view file) { return has(file, 0, "ORC"sv) && file.ends_with("ORC"sv); }
bool is_feather(std::string_view file) { return has(file, 0, "FEA1"sv) && file.ends_with("FEA1"sv); }
bool is_duckdb(std::string_view file) { return has(file, 8, "DUCK"sv) && number_at<uint64_t>(file, 12) < 1024; }
bool is_lmdb(std::string_view file) { return number_at<uint32_t>(file, 16) == 0xBEEFC0DE; }
bool is_ggml(std::string_view file) {
  const auto version = number_at<uint32_t>(file, 4);
  return (has(file, 0, "lmgg"sv) || has(file, 0, "fmgg"sv) || has(file, 0, "tjgg"sv) || has(file, 0, "algg"sv)) &&
         version < 65536;
}
bool is_packed_dataset(std::string_view file) { return has(file, 0, "LITPKDS"sv); }
bool is_mp4(std::string_view file) { return has(file, 4, "ftyp"sv) && byte_at(file, 0) == 0; }
bool is_mp3(std::string_view file) { return has(file, 0, "ID3"sv) && byte_at(file, 3) < 5 && byte_at(file, 4) == 0; }
bool is_ogg(std::string_view file) { return has(file, 0, "OggS\0"sv) && byte_at(file, 5) < 8; }
bool is_tiff(std::string_view file) {
  const auto place = number_at<uint32_t>(file, 4);
  return (has(file, 0, "II*\0"sv) && place >= 8 && place < file.size()) || has(file, 0, "MM\0*\0\0"sv);
}
bool is_windows_program(std::string_view file) {
  return has(file, 0, "MZ"sv) && has(file, number_at<uint32_t>(file, 60), "PE\0\0"sv);
}
bool is_mach_o(std::string_view file) {
  return (has(file, 0, "\xcf\xfa\xed\xfe"sv) || has(file, 0, "\xce\xfa\xed\xfe"sv)) && byte_at(file, 6) == 0;
}
bool is_squashfs(std::string_view file) { return has(file, 0, "hsqs"sv) && number_at<uint16_t>(file, 28) == 4; }
bool is_tflite(std::string_view file) { return has(file, 4, "TFL3"sv); }
bool is_matlab(std::string_view file) { return has(file, 0, "MATLAB "sv) && has(file, 126, "IM"sv); }
bool is_lzma(std::string_view file) {
  return has(file, 0, "\x5d\0\0"sv) && has(file, 5, "\xff\xff\xff\xff\xff\xff\xff\xff\0"sv);
}
/// A frame that readers skip, by its size, and another frame after it.
bool is_zstd_skippable(std::string_view file) {
  const size_t next = size_t{8} + number_at<uint32_t>(file, 4);
  return (number_at<uint32_t>(file, 0) & 0xFFFFFFF0) == 0x184D2A50 && next < file.size() &&
         (has(file, next, "\x28\xb5\x2f\xfd"sv) || byte_at(file, next + 1) == 0x2a);
}

/// Magic numbers of llm.c are dates; the format's version follows.
bool is_llm_c(std::string_view file, std::initializer_list<uint32_t> magics) {
  const auto version = number_at<uint32_t>(file, 4);
  return std::ranges::find(magics, number_at<uint32_t>(file, 0)) != magics.end() && version > 0 && version < 16;
}
bool is_llm_c_model(std::string_view file) { return is_llm_c(file, {20240326, 20240803, 20240327, 20240527}); }
bool is_llm_c_tokenizer(std::string_view file) { return is_llm_c(file, {20240328}); }

/// The Castagnoli polynomial, reversed.
uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0u);
  }
  return ~crc;
}

/// A record begins with its length (8 bytes) and the masked checksum of these.
bool is_tfrecord(std::string_view file) {
  if (file.size() < 16) return false;
  const uint32_t crc = crc32c(file.substr(0, 8));
  return number_at<uint32_t>(file, 8) == (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

/// A count, the places of so many samples, which ascend, and the file's end.
bool is_sample_shard(std::string_view file) {
  const auto count = number_at<uint32_t>(file, 0);
  const uint64_t table = 4 + 4 * (uint64_t{count} + 1);
  if (count < 2 || table > file.size() || number_at<uint32_t>(file, table - 4) != file.size()) return false;
  uint64_t before = table;
  for (uint64_t at = 4; at < table; at += 4) {
    const auto place = number_at<uint32_t>(file, at);
    if (place < before) return false;
    before = place;
  }
  return true;
}

/// The message of a piece: its length, its text, a score. Another piece follows.
bool is_sentencepiece(std::string_view file) {
  const uint8_t message = byte_at(file, 1), text = byte_at(file, 3);
  const size_t second = size_t{2} + message;
  return byte_at(file, 0) == '\n' && byte_at(file, 2) == '\n' && message < 128 && text + size_t{7} <= message &&
         byte_at(file, size_t{4} + text) == 0x15 && byte_at(file, second) == '\n' && byte_at(file, second + 2) == '\n';
}

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
    {"a zstd file", is_zstd_skippable, kUnpack},
    {"an lzma file", is_lzma, kUnpack},
    {"an lzop file", begins<"\x89LZO\0\r\n\x1a\n">, kUnpack},
    {"a snappy file", begins<"\xff\6\0\0sNaPpY">, kUnpack},
    {"a 7z archive", begins<"7z\xbc\xaf\x27\x1c">, kUnpack},
    {"a rar archive", begins<"Rar!\x1a\x07">, kUnpack},
    {"a tar archive", is_tar, kUnpack},
    {"a package or static library (ar)", begins<"!<arch>\n">, kNotData},
    {"a SquashFS image", is_squashfs, kNotData},
    {"a pack of Git", begins<"PACK\0\0\0\2">, kNotData},
    {"a packed dataset of LitGPT or TinyLlama, whose ids follow a header", is_packed_dataset, kAgain},
    {"a file of TensorFlow records", is_tfrecord, kTextsToJsonl},
    {"a shard of samples, as MosaicML's and Lightning's streaming datasets have", is_sample_shard, kTextsToJsonl},
    {"a model or state of llm.c, which holds weights", is_llm_c_model, kNotData},
    {"a tokenizer of llm.c", is_llm_c_tokenizer, kNotData},
    {"a zip archive (as PyTorch's files and .npz are)", is_zip, kNotData},
    {"a safetensors file, which holds weights", is_safetensors, kNotData},
    {"a GGUF file, which holds a model", is_gguf, kNotData},
    {"a GGML file, which holds a model", is_ggml, kNotData},
    {"a TensorFlow Lite graph", is_tflite, kNotData},
    {"a model of KenLM", begins<"mmap lm http://kheafield.com">, kNotData},
    {"a model of fastText", begins<"\xba\x16\x4f\x2f">, kNotData},
    {"an HDF5 file", begins<"\x89HDF\r\n\x1a\n">, kNotData},
    {"a Parquet file", is_parquet, kPrepare},
    {"an Arrow file", begins<"ARROW1\0\0">, kTextsToJsonl},
    {"an Arrow stream, as `datasets` stores it", is_arrow_stream, kTextsToJsonl},
    {"an ORC file", is_orc, kTextsToJsonl},
    {"a Feather file", is_feather, kTextsToJsonl},
    {"an Avro file", is_avro, kNotData},
    {"a netCDF file", begins<"CDF\1\0\0">, kNotData},
    {"a file of MATLAB", is_matlab, kNotData},
    {"a file of R", begins<"RDX3\n">, kNotData},
    {"a DuckDB database", is_duckdb, kNotData},
    {"an LMDB database", is_lmdb, kNotData},
    {"a dump of PostgreSQL", begins<"PGDMP\1">, kNotData},
    {"an SQLite database", begins<"SQLite format 3\0">, kNotData},
    {"the index of a Megatron or NeoX indexed dataset", begins<"MMIDIDX\0\0">,
     "name the dataset by its prefix, without .idx; FILE.bin must be beside it"},
    {"the index of an old indexed dataset of fairseq", begins<"TNTIDX\0\0">,
     "prepare the text again with `trireme prepare --format megatron`"},
    {"a program or library (ELF)", is_elf, kNotData},
    {"a program of Windows", is_windows_program, kNotData},
    {"a program of macOS", is_mach_o, kNotData},
    {"a class of Java", begins<"\xca\xfe\xba\xbe\0\0\0">, kNotData},
    {"a WebAssembly module", begins<"\0asm\1\0\0\0">, kNotData},
    {"a picture (PNG)", begins<"\x89PNG\r\n\x1a\n">, kNotData},
    {"a picture (JPEG)", is_jpeg, kNotData},
    {"a picture (GIF)", is_gif, kNotData},
    {"a picture (TIFF)", is_tiff, kNotData},
    {"a video (MP4)", is_mp4, kNotData},
    {"a sound (MP3)", is_mp3, kNotData},
    {"a sound (FLAC)", begins<"fLaC\0\0\0\x22">, kNotData},
    {"a sound (Ogg)", is_ogg, kNotData},
    {"a RIFF file (sound or picture)", is_riff, kNotData},
    {"a document of older Office programs", begins<"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1">,
     "write its text to a .txt file for `trireme prepare`"},
    {"a PDF document", is_pdf, "write its text to a .txt file for `trireme prepare`"},
    {"a SentencePiece vocabulary", is_sentencepiece, kNotData},
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

std::optional<FileSignature> binary_signature_of(std::string_view file) {
  for (const Known& known : kKnown) {
    if (known.is(file)) return FileSignature{known.what, known.todo};
  }
  return std::nullopt;
}

void require_text(std::string_view file, const std::string& path) {
  const auto found = binary_signature_of(file);
  require(!found, ErrorKind::data,
          "{}: is {}, not text; give the text that it contains, or use its bytes unchanged with --encoding utf-8", path,
          found ? found->what : "");
}

std::optional<FileSignature> signature_of(std::string_view file, const std::string& path) {
  if (auto found = binary_signature_of(file)) return found;
  if (is_utf16(file)) return FileSignature{"text in UTF-16", kPrepare};
  const bool named_so = has_ending(path, {".txt", ".json", ".jsonl", ".csv", ".tsv", ".md", ".yaml", ".yml", ".py"});
  const bool small_text = named_so && !file.empty() && is_printable(file.substr(0, kLookedAt), file.size() > kLookedAt);
  if (small_text || looks_like_text(file)) return text_kind(file);
  return std::nullopt;
}

}  // namespace trireme
