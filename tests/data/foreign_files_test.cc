// Checks of token files without a sidecar: other formats and numbers are named, valid ids pass.

#include <gmock/gmock.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/file.h"
#include "base/rng.h"
#include "data/token_dataset.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"
#include "text/tokenizer.h"

namespace trireme {
namespace {

using testing::HasSubstr;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// All bytes of a literal, including NULs.
template <size_t size>
std::string raw(const char (&text)[size]) {
  return {text, size - 1};
}

/// Ids as in texts: small ones are frequent.
std::vector<uint32_t> text_ids(size_t count, uint32_t below, uint64_t seed = 1) {
  RandomStream random(seed);
  std::vector<uint32_t> ids(count);
  for (uint32_t& id : ids) {
    const double u = static_cast<double>(random.below(1u << 30)) / static_cast<double>(1u << 30);
    id = static_cast<uint32_t>(std::pow(static_cast<double>(below), u)) % below;
  }
  return ids;
}

template <class T>
std::vector<T> as(const std::vector<uint32_t>& ids) {
  return {ids.begin(), ids.end()};
}

std::string swapped(std::string bytes, size_t width) {
  for (size_t at = 0; at + width <= bytes.size(); at += width)
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(at), bytes.begin() + static_cast<ptrdiff_t>(at + width));
  return bytes;
}

std::string npy(const std::string& type, const std::string& shape, const std::string& data, char version = 1) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  const size_t prefix = version == 1 ? 10 : 12;
  header.append(64 - (prefix + header.size() + 1) % 64, ' ');
  header += '\n';
  std::string file("\x93NUMPY", 6);
  file += version;
  file += '\0';
  const auto size = static_cast<uint32_t>(header.size());
  file.append(reinterpret_cast<const char*>(&size), version == 1 ? 2 : 4);
  return file + header + data;
}

std::string shard(int32_t magic, int32_t version, int32_t ids, const std::string& data) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = ids;
  return bytes_of(header) + data;
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(text.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

template <class T>
std::string normal_numbers(size_t count, double scale) {
  RandomStream random(7);
  std::vector<T> values(count);
  for (T& value : values) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random.below(1u << 20)) / static_cast<double>(1u << 20);
    value = static_cast<T>(sum * scale);
  }
  return bytes_of(values);
}

/// The upper halves of f32 numbers.
std::string bf16_numbers(size_t count) {
  const std::string wide = normal_numbers<float>(count, 0.02);
  std::string out;
  for (size_t i = 2; i < wide.size(); i += 4) out += wide.substr(i, 2);
  return out;
}

/// Ids as labels: some do not count.
template <class T>
std::vector<T> labels(const std::vector<uint32_t>& ids) {
  std::vector<T> all = as<T>(ids);
  for (size_t i = 0; i < all.size(); i += 37) all[i] = i % 2 == 0 ? -100 : -1;
  return all;
}

/// `head` and bytes after it, up to `size`.
std::string filled(std::string head, size_t size = 400) {
  RandomStream random(11);
  while (head.size() < size) head += static_cast<char>(random.below(256));
  return head;
}

/// A count, the places of the samples, their texts.
std::string sample_shard(uint32_t samples) {
  std::string text = "some text of a sample", table, body;
  const auto word = [](size_t value) { return bytes_of(std::vector<uint32_t>{static_cast<uint32_t>(value)}); };
  const size_t begin = 4 + 4 * (samples + 1);
  for (uint32_t i = 0; i < samples; ++i) table += word(begin + body.size()), body += text;
  return word(samples) + table + word(begin + body.size()) + body;
}

class ForeignFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) {
    write_text(folder_ / name, bytes);
    return folder_ / name;
  }
  /// The error of opening; empty if it opens. Without a vocabulary, so only the ids decide.
  std::string refusal(const std::string& name, const std::string& bytes) {
    const std::string path = write(name, bytes);
    try {
      const TokenDataset data(path, 0, true);
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::data);
      return e.what();
    }
  }

  TemporaryFolder folder_;
};

struct ForeignCase {
  const char* name;
  std::string bytes;
  const char* said;
};

TEST_F(ForeignFiles, OtherFormatsAreNamed) {
  const std::string text =
      "It is a truth universally acknowledged, that a single man in possession\nof a good fortune.\n";
  const std::string json = "{\"version\": \"1.0\", \"model\": {\"type\": \"BPE\"}}\n";
  std::string safetensors("\x40\0\0\0\0\0\0\0", 8);
  safetensors += "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}        " + std::string(16, 'x');
  std::string tar(512, '\0');
  tar.replace(0, 5, "a.txt").replace(257, 5, "ustar");
  std::string utf16("\xff\xfe", 2);
  for (const char c : text) utf16 += std::string{c, '\0'};
  const std::vector<ForeignCase> cases{
      {"gzip", gzip(text), "is a gzip file, not a token file: unpack it"},
      {"zstd", raw("\x28\xb5\x2f\xfd\x24\x10") + text, "is a zstd file"},
      {"xz",
       raw("\xfd"
           "7zXZ\0\0\4") +
           text,
       "is an xz file"},
      {"bzip2", "BZh91AY&SY" + text, "is a bzip2 file"},
      {"zip", raw("PK\3\4\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0\5\0\0\0\5\0\0\0\5\0\0\0a.txt") + text, "is a zip archive"},
      {"tar", tar, "is a tar archive"},
      {"pickle of protocol 2", raw("\x80\2}q\0X\4\0\0\0stoiq\1}q\2(X\1\0\0\0aq\3K\0X\1\0\0\0bq\4K\1us."),
       "is a Python pickle"},
      {"pickle of protocol 4", raw("\x80\4\x95\x1a\0\0\0\0\0\0\0}\x94\x8c\nvocab_size\x94M\x01\x02s."),
       "is a Python pickle"},
      {"old file of PyTorch",
       raw("\x80\2\x8a\nl\xfc\x9c"
           "F\xf9 j\xa8P\x19.\x80\2M\xe9\3."),
       "is a Python pickle"},
      {"safetensors", safetensors, "is a safetensors file"},
      {"gguf", raw("GGUF\3\0\0\0\1\0\0\0\0\0\0\0"), "is a GGUF file"},
      {"hdf5", "\x89HDF\r\n\x1a\n" + text, "is an HDF5 file"},
      {"parquet", "PAR1" + text + "PAR1", "is a Parquet file"},
      {"arrow", raw("ARROW1\0\0") + text, "is an Arrow file"},
      {"stream of arrow", raw("\xff\xff\xff\xff\x10\0\0\0\x10\0\0\0\0\0\x0a\0\x0c\0\6\0") + text, "is an Arrow stream"},
      {"sqlite", raw("SQLite format 3\0") + text, "is an SQLite database"},
      {"elf",
       raw("\x7f"
           "ELF\2\1\1\0\0\0\0\0\0\0\0\0"),
       "is a program or library"},
      {"png", "\x89PNG\r\n\x1a\n" + text, "is a picture (PNG)"},
      {"jpeg", raw("\xff\xd8\xff\xe0\0\x10JFIF") + text, "is a picture (JPEG)"},
      {"pdf", "%PDF-1.5\n" + text, "is a PDF document"},
      {"idx", raw("MMIDIDX\0\0\1\0\0\0\0\0\0\0\x08"), "is the index of a Megatron or NeoX indexed dataset"},
      {"sentencepiece", raw("\n\x0e\n\5<unk>\x15\0\0\0\0\x18\2\n\x0c\n\3<s>\x15\0\0\0\0\x18\3") + text,
       "is a SentencePiece vocabulary"},
      {"sentencepiece of T5", raw("\n\x0e\n\5<pad>\x15\0\0\0\0\x18\3\n\x0d\n\4</s>\x15\0\0\0\0\x18\3") + text,
       "is a SentencePiece vocabulary"},
      {"litgpt", filled(raw("LITPKDS\1\0\0\0\0\0\0\0\x08")), "is a packed dataset of LitGPT or TinyLlama"},
      {"llm.c model", filled(bytes_of(std::vector<int32_t>{20240326, 5, 1024, 50257})), "is a model or state of llm.c"},
      {"llm.c tokenizer", filled(bytes_of(std::vector<int32_t>{20240328, 2, 50257})), "is a tokenizer of llm.c"},
      {"TensorFlow records", filled(raw("\x10\0\0\0\0\0\0\0\x95\xfb\xfe\x18")), "is a file of TensorFlow records"},
      {"shard of samples", sample_shard(30), "is a shard of samples, as MosaicML's"},
      {"orc", filled("ORC") + "ORC", "is an ORC file"},
      {"feather", filled("FEA1") + "FEA1", "is a Feather file"},
      {"duckdb", filled(raw("12345678DUCK\x40\0\0\0\0\0\0\0")), "is a DuckDB database"},
      {"lmdb", filled(std::string(16, '\0') + raw("\xde\xc0\xef\xbe\1\0\0\0")), "is an LMDB database"},
      {"ggjt", filled(raw("tjgg\3\0\0\0")), "is a GGML file"},
      {"tflite", filled(raw("\x1c\0\0\0TFL3")), "is a TensorFlow Lite graph"},
      {"mp4",
       filled(raw("\0\0\0\x20"
                  "ftypisom")),
       "is a video (MP4)"},
      {"mp3", filled(raw("ID3\3\0\0\0")), "is a sound (MP3)"},
      {"flac", filled(raw("fLaC\0\0\0\x22")), "is a sound (FLAC)"},
      {"ogg", filled(raw("OggS\0\2")), "is a sound (Ogg)"},
      {"tiff", filled(raw("II*\0\x08\0\0\0")), "is a picture (TIFF)"},
      {"exe", filled("MZ" + std::string(58, '\1') + raw("\x40\0\0\0PE\0\0")), "is a program of Windows"},
      {"macho", filled(raw("\xcf\xfa\xed\xfe\7\0\0\1")), "is a program of macOS"},
      {"class", filled(raw("\xca\xfe\xba\xbe\0\0\0\x34")), "is a class of Java"},
      {"wasm", filled(raw("\0asm\1\0\0\0")), "is a WebAssembly module"},
      {"doc", filled("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), "is a document of older Office programs"},
      {"matlab", filled("MATLAB 5.0 MAT-file" + std::string(105, ' ') + raw("\0\1IM")), "is a file of MATLAB"},
      {"netcdf", filled(raw("CDF\1\0\0\0\0")), "is a netCDF file"},
      {"r", filled("RDX3\nX\n"), "is a file of R"},
      {"postgresql", filled("PGDMP\1\x0e"), "is a dump of PostgreSQL"},
      {"squashfs", filled("hsqs" + std::string(24, '\1') + raw("\4\0\0\0")), "is a SquashFS image"},
      {"git", filled(raw("PACK\0\0\0\2")), "is a pack of Git"},
      {"deb", filled("!<arch>\ndebian-binary"), "is a package or static library (ar)"},
      {"snappy", filled(raw("\xff\6\0\0sNaPpY")), "is a snappy file"},
      {"lzop", filled(raw("\x89LZO\0\r\n\x1a\n")), "is an lzop file"},
      {"lzma", filled(raw("\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff\0")), "is an lzma file"},
      {"zstd after a frame to skip", filled(raw("\x50\x2a\x4d\x18\4\0\0\0abcd\x28\xb5\x2f\xfd")), "is a zstd file"},
      {"kenlm", filled(raw("mmap lm http://kheafield.com/code format version 5\n\0")), "is a model of KenLM"},
      {"fasttext", filled(bytes_of(std::vector<int32_t>{793712314, 12})), "is a model of fastText"},
      {"text", text, "is text, not a token file: `trireme prepare"},
      {"json", json, "is text (JSON)"},
      {"Chinese text",
       "\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97\xe7\xac\xa6\xe6\xb5\x8b\xe8\xaf\x95\xef\xbc\x8c\xe4\xb8\x80\xe4\xba\x8c\n",
       "is text"},
      {"UTF-16 text", utf16, "is text in UTF-16"},
      {"pointer of Git LFS", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n",
       "is a Git LFS pointer"},
      {"web page", "<!DOCTYPE html><html><body>404 not found</body></html>\n", "is a web page"},
  };
  for (const ForeignCase& c : cases) {
    for (const char* name : {"train.bin", "train"}) {  // with any name
      const std::string said = refusal(name, c.bytes);
      EXPECT_THAT(said, HasSubstr(c.said)) << c.name;
      EXPECT_THAT(said, HasSubstr(folder_ / name)) << c.name;
    }
  }
  EXPECT_THAT(refusal("small.txt", "to be\n"), HasSubstr("is text"));
}

TEST_F(ForeignFiles, NumbersOfAnotherWidthOrOrderAreNamed) {
  const auto gpt2 = text_ids(3000, 50257), characters = text_ids(3000, 65), llama3 = text_ids(3000, 128256);
  const auto few = text_ids(24, 1000), many = text_ids(400000, 151936);
  const std::vector<ForeignCase> cases{
      {"32-bit", bytes_of(gpt2), "looks like 32-bit ids, none of them above 65535: their upper parts"},
      {"32-bit characters", bytes_of(characters), "looks like 32-bit ids, none of them above 65535"},
      {"24 ids of 32 bits", bytes_of(few), "looks like 32-bit ids"},
      {"32-bit above 65535", bytes_of(llama3), "looks like 32-bit ids, some of them above 65535; write the ids with"},
      {"64-bit", bytes_of(as<uint64_t>(gpt2)), "looks like 64-bit ids"},
      {"64-bit characters", bytes_of(as<uint64_t>(characters)), "looks like 64-bit ids"},
      {"16-bit big-endian", swapped(bytes_of(as<uint16_t>(gpt2)), 2), "looks like 16-bit ids in big-endian order"},
      {"16-bit characters, big-endian", swapped(bytes_of(as<uint16_t>(characters)), 2),
       "16-bit ids in big-endian order"},
      {"32-bit big-endian", swapped(bytes_of(gpt2), 4), "looks like 32-bit ids in big-endian order, none"},
      {"64-bit big-endian", swapped(bytes_of(as<uint64_t>(gpt2)), 8), "looks like 64-bit ids in big-endian order"},
      {"32-bit above 65535, big-endian", swapped(bytes_of(llama3), 4),
       "32-bit ids in big-endian order, some of them above"},
      {"64-bit above 65535", bytes_of(as<uint64_t>(llama3)), "'<u8').astype('<u4'))"},
      {"64-bit above 65535, big-endian", swapped(bytes_of(as<uint64_t>(llama3)), 8), "64-bit ids in big-endian order"},
      {"many of 32 bits", bytes_of(many), "looks like 32-bit ids, some of them above 65535"},
      {"many of 64 bits", bytes_of(as<uint64_t>(many)), "looks like 64-bit ids, some of them above 65535"},
      {"many of 32 bits, big-endian", swapped(bytes_of(many), 4), "looks like 32-bit ids in big-endian order, some"},
      {"32-bit labels", bytes_of(labels<int32_t>(gpt2)), "looks like 32-bit ids, some of them negative"},
      {"32-bit labels of characters", bytes_of(labels<int32_t>(characters)), "32-bit ids, some of them negative"},
      {"64-bit labels", bytes_of(labels<int64_t>(gpt2)), "looks like 64-bit ids, some of them negative"},
      {"8-bit characters", bytes_of(as<uint8_t>(characters)), "looks like 8-bit ids"},
      {"floats", normal_numbers<float>(2000, 0.02), "looks like floating-point numbers"},
      {"large floats", normal_numbers<float>(2000, 30), "looks like floating-point numbers"},
      {"ids as floats", bytes_of(as<float>(gpt2)), "looks like floating-point numbers"},
      {"doubles", normal_numbers<double>(2000, 1), "looks like floating-point numbers"},
      {"bf16", bf16_numbers(2000), "looks like floating-point numbers"},
  };
  for (const ForeignCase& c : cases) {
    const std::string said = refusal("train.bin", c.bytes);
    EXPECT_THAT(said, HasSubstr(c.said)) << c.name;
    EXPECT_THAT(said, HasSubstr("--data.trust")) << c.name;
    EXPECT_NO_THROW(TokenDataset(folder_ / "train.bin", 0, true, {}, true)) << c.name;
  }
}

TEST_F(ForeignFiles, HeadersThatAreKnownAreRead) {
  const auto ids = as<uint16_t>(text_ids(3000, 50257));
  const std::string data = bytes_of(ids);
  const std::vector<ForeignCase> cases{
      {"npy", npy("<u2", "(3000,)", data), "NumPy's .npy"},
      {"npy of version 2", npy("<u2", "(3000,)", data, 2), "NumPy's .npy"},
      {"npy of int16", npy("<i2", "(3000,)", data), "NumPy's .npy"},
      {"llm.c", shard(20240520, 1, 3000, data), "llm.c shard"},
  };
  for (const ForeignCase& c : cases) {
    const TokenDataset read(write("train.bin", c.bytes), 50257, true);
    EXPECT_THAT(read.format(), HasSubstr(c.said));
    ASSERT_EQ(read.size(), ids.size()) << c.name;
    for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(read.tokens()[i], ids[i]) << c.name;
  }
}

TEST_F(ForeignFiles, HeadersOf32BitIdsAreRead) {
  const auto ids = text_ids(3000, 128256);
  const std::string data = bytes_of(ids);
  const std::vector<ForeignCase> cases{
      {"npy", npy("<u4", "(3000,)", data), "NumPy's .npy, 32-bit ids"},
      {"npy of int32", npy("<i4", "(3000,)", data), "NumPy's .npy, 32-bit ids"},
      {"llm.c", shard(20240801, 7, 3000, data), "llm.c shard for Llama 3, 32-bit ids"},
  };
  for (const ForeignCase& c : cases) {
    const TokenDataset read(write("train.bin", c.bytes), 128256, true);
    EXPECT_EQ(read.format(), c.said);
    ASSERT_EQ(read.size(), ids.size()) << c.name;
    for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(read.tokens()[i], ids[i]) << c.name;
    EXPECT_ERROR(TokenDataset(folder_ / "train.bin", 70000, true), ErrorKind::data, "but the vocabulary has 70000 ids");
  }
  const TokenDataset negative(write("train.bin", npy("<i4", "(3,)", bytes_of(std::vector<int32_t>{1, 2, 3}))), 0, true);
  EXPECT_EQ(negative.size(), 3u);
  EXPECT_THAT(refusal("train.bin", npy("<i4", "(2,)", bytes_of(std::vector<int32_t>{1, -1}))),
              HasSubstr("token 1 is id 4294967295, but the vocabulary has 2147483648 ids"));
  EXPECT_THAT(refusal("train.bin", npy("<u4", "(3000,)", data.substr(0, 11998))),
              HasSubstr("its header declares 3000 ids, but 11998 bytes follow it"));
  testing::internal::CaptureStderr();
  EXPECT_EQ(refusal("train.bin", npy("<u4", "(50000,)", std::string(200000, '\0'))), "");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("100 % of the sampled ids are 0"));
  testing::internal::CaptureStderr();
  EXPECT_EQ(refusal("train.bin", npy("<u4", "(3000,)", bytes_of(text_ids(3000, 50257)))), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "upper halves are not ids";
}

TEST_F(ForeignFiles, HeadersThatDoNotFitAreSaid) {
  const std::string data = bytes_of(as<uint16_t>(text_ids(3000, 50257)));
  const std::vector<ForeignCase> cases{
      {"i8 ids", npy("<i8", "(750,)", data),
       "is a .npy file of '<i8', but tokens are 16-bit or 32-bit ids ('<u2', '<u4')"},
      {"i8", npy("<i8", "(750,)", data), "is a .npy file of '<i8'"},
      {"f4", npy("<f4", "(1500,)", data), "is a .npy file of '<f4'"},
      {"big-endian", npy(">u2", "(3000,)", data), "is a .npy file of '>u2'"},
      {"matrix", npy("<u2", "(30, 100)", data), "is a .npy file of 2 dimensions, but tokens have one"},
      {"cut", npy("<u2", "(4000,)", data), "its header declares 4000 ids, but 6000 bytes follow it"},
      {"llm.c cut", shard(20240520, 1, 4000, data), "declares 4000 ids, but 6000 bytes follow it"},
      {"llm.c version", shard(20240520, 2, 3000, data), "its header has another version"},
      {"llm.c big-endian", swapped(shard(20240520, 1, 3000, data), 4), "byte order"},
      {"llm.c Llama 3", shard(20240801, 1, 1500, data), "begins like an llm.c shard for Llama 3, but its header has"},
      {"llm.c evaluation", shard(20240522, 1, 100, data), "multiple-choice questions"},
  };
  for (const ForeignCase& c : cases) EXPECT_THAT(refusal("train.bin", c.bytes), HasSubstr(c.said)) << c.name;
}

/// Frequent bytes are the same at even and at odd places, unlike the low and high parts of ids.
TEST_F(ForeignFiles, BytesOfTextAndOtherFilesAreNamed) {
  std::string german, cyrillic, packed;
  for (int i = 0; i < 200; ++i) {
    german +=
        "Gr\xfc\xdf"
        "e aus K\xf6ln, die B\xfc"
        "cher sind sch\xf6n. ";
    cyrillic += "\xc2\xf1\xe5 \xf1\xf7\xe0\xf1\xf2\xeb\xe8\xe2\xfb\xe5 \xf1\xe5\xec\xfc\xe8 \xef\xee\xf5\xee\xe6\xe8, ";
    packed += raw("\x82\xa4text\xb8") + "a few words of a sample." + raw("\xa2id\xcd\1") + static_cast<char>(i);
  }
  for (const auto& [name, bytes] : {std::pair{"latin1", german}, {"cp1251", cyrillic}, {"msgpack", packed}})
    EXPECT_THAT(refusal("train.bin", bytes.substr(0, bytes.size() / 2 * 2)),
                HasSubstr("looks like bytes of text or of another file: both bytes of an id take the same values"))
        << name;
}

/// Valid files of nanoGPT, including unusual ones.
TEST_F(ForeignFiles, ValidIdsAreUnchanged) {
  const auto ramp = [](size_t count, uint32_t below) {
    std::vector<uint32_t> ids(count);
    std::iota(ids.begin(), ids.end(), 0u);
    for (uint32_t& id : ids) id %= below;
    return ids;
  };
  const auto uniform = [](size_t count, uint32_t below) {
    RandomStream random(3);
    std::vector<uint32_t> ids(count);
    for (uint32_t& id : ids) id = static_cast<uint32_t>(random.below(below));
    return ids;
  };
  const auto pattern = [](std::vector<uint32_t> unit, size_t times) {
    std::vector<uint32_t> ids;
    for (size_t i = 0; i < times; ++i) ids.insert(ids.end(), unit.begin(), unit.end());
    return ids;
  };
  std::vector<uint32_t> padded, sparse(4096), late(200000);
  for (const uint32_t length : {5u, 90u, 3u, 40u, 17u}) {
    const auto document = text_ids(length, 50257, length);
    padded.insert(padded.end(), document.begin(), document.end());
    padded.resize((padded.size() + 127) / 128 * 128, 0);
  }
  for (size_t i = 0; i < sparse.size(); i += 37) sparse[i] = static_cast<uint32_t>(i % 50257);
  std::ranges::copy(text_ids(40000, 50257), late.begin());
  std::vector<uint32_t> window(6000);
  std::iota(window.begin(), window.end(), 12300u);
  const std::vector<std::pair<const char*, std::vector<uint32_t>>> cases{
      {"GPT-2", text_ids(20000, 50257)},
      {"all 16 bits", text_ids(20000, 65536)},
      {"uniform", uniform(20000, 50257)},
      {"uniform 16 bits", uniform(20000, 65536)},
      {"characters", text_ids(20000, 65)},
      {"uniform characters", uniform(20000, 65)},
      {"bytes", text_ids(20000, 256)},
      {"two characters", uniform(20000, 2)},
      {"three characters", uniform(20000, 3)},
      {"ramp", ramp(60000, 50257)},
      {"small ramp", ramp(5000, 100)},
      {"ramp of two", ramp(5000, 2)},
      {"part of a ramp", window},
      {"constant 0", pattern({0}, 5000)},
      {"constant 7", pattern({7}, 5000)},
      {"constant 8224, two blanks as text", pattern({8224}, 5000)},
      {"constant 256", pattern({256}, 5000)},
      {"constant 16256, half of 1.0f", pattern({16256}, 5000)},
      {"constant 50256", pattern({50256}, 5000)},
      {"0 and 7 in turn", pattern({7, 0}, 5000)},
      {"7 and 0 in turn", pattern({0, 7}, 5000)},
      {"period of four", pattern({1, 0, 2, 0}, 5000)},
      {"padded with 0", padded},
      {"mostly 0", sparse},
      {"ends in zeros", late},
      {"one id", {5}},
      {"few ids", {5, 0, 7, 0, 9, 0}},
      {"few ids as text", {0x6161, 0x6262, 0x6363}},
      {"8 ids", text_ids(8, 50257)},
      {"33 ids", text_ids(33, 50257)},
      {"first id as of gzip", {35615, 8, 3000, 12}},
      {"first id as of a pickle", {640, 11, 290, 262, 1573}},
  };
  for (const auto& [name, ids] : cases) {
    EXPECT_EQ(refusal("train.bin", bytes_of(as<uint16_t>(ids))), "") << name;
    EXPECT_EQ(refusal("odd", bytes_of(as<uint16_t>(ids)) + raw("\x05\0")), "") << name;
  }
}

TEST_F(ForeignFiles, RandomValidFilesOfEverySizeAreUnchanged) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const uint32_t vocabulary = std::vector<uint32_t>{2, 12, 65, 100, 256, 512, 5000, 32000, 50257, 65536}[seed % 10];
    const auto ids = text_ids(1 + seed * 7 % 500, vocabulary, seed);
    EXPECT_EQ(refusal("train.bin", bytes_of(as<uint16_t>(ids))), "") << seed;
  }
}

TEST_F(ForeignFiles, MostlyZerosGiveAWarning) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(refusal("train.bin", std::string(200000, '\0')), "");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("100 % of the sampled ids are 0"));
}

TEST_F(ForeignFiles, IdsOutsideOfTheVocabularyAreCounted) {
  const std::string path = write("train.bin", bytes_of(std::vector<uint16_t>{1, 2, 100, 3, 101, 4}));
  EXPECT_ERROR(TokenDataset(path, 100, false), ErrorKind::data, "2 of the 6 ids looked at here are outside");
}

TEST(RealTokens, AreLeftAlone) {
  TRIREME_NEEDS_TEST_DATA("text");
  TRIREME_NEEDS_TEST_DATA("tokenizers/gpt2.tokenizer.json");
  TemporaryFolder folder;
  std::string text;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test_data_dir() / "text"))
    if (entry.is_regular_file() && entry.path().extension() == ".txt" && text.size() < (2u << 20))
      text += read_text(entry.path().string()).substr(0, 1 << 19);
  ASSERT_GT(text.size(), 10000u);
  std::vector<uint16_t> characters;
  for (const char c : text) characters.push_back(static_cast<uint8_t>(c));
  std::vector<std::vector<uint16_t>> files{characters};
  for (const char* name : {"gpt2", "llama2", "bert-base-uncased", "t5-small"}) {
    const auto path = test_data_dir() / "tokenizers" / (std::string(name) + ".tokenizer.json");
    const auto ids = load_tokenizer(path.string())->encode(text.substr(0, 1 << 18)).ids;
    files.emplace_back(ids.begin(), ids.end());
  }
  for (const auto& ids : files) {
    for (const size_t size : {ids.size(), size_t{20000}, size_t{1000}, size_t{65}}) {
      write_text(folder / "train.bin",
                 bytes_of(std::vector<uint16_t>(ids.begin(),
                                                ids.begin() + static_cast<ptrdiff_t>(std::min(size, ids.size())))));
      EXPECT_NO_THROW(TokenDataset(folder / "train.bin", 0, true));
    }
  }
}

}  // namespace
}  // namespace trireme
