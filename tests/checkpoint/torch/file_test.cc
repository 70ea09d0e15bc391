#include "checkpoint/torch/file.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/huggingface/tensor_source.h"
#include "checkpoint/safetensors/safetensors.h"
#include "checkpoint/torch/zip_archive.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"
#include "tests/support/torch_bytes.h"
#include "text/files/pickle.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;

std::string sample(const std::string& name) {
  return (fs::path(source_dir()) / "tests" / "golden" / "torch" / name).string();
}

TorchContent parse(const std::string& file) {
  return parse_torch(std::as_bytes(std::span(file.data(), file.size())), "x.bin");
}

#define EXPECT_REFUSED(file_, text_) EXPECT_ERROR(parse(file_), ErrorKind::data, text_)
#define EXPECT_PICKLE_REFUSED(value_, text_) EXPECT_REFUSED(torch_of(pickle_of(value_)), text_)

std::string matrix(const std::vector<uint64_t>& shape, const std::vector<uint64_t>& strides, uint64_t offset = 0) {
  return pickle_tensor(pickle_storage("FloatStorage", "0", 6), offset, shape, strides);
}
std::string one(const std::string& tensor) { return torch_of(pickle_of(pickle_dict({{"w", tensor}}))); }

/// Every tensor of a torch file is in the safetensors file and has its values.
void expect_equal_tensors(const std::string& path, size_t count) {
  const SafetensorsFile want(sample("huggingface/model.safetensors"));
  const TensorSource source = TensorSource::of_torch_file(path);
  const auto tensors = source.all();
  EXPECT_EQ(tensors.size(), count);
  for (const SourceTensor& tensor : tensors) {
    const std::string name = tensor.name == "lm_head.weight" ? "transformer.wte.weight" : tensor.name;
    ASSERT_TRUE(want.find(name)) << name;
    EXPECT_EQ(tensor.shape, want.find(name)->shape) << name;
    EXPECT_EQ(tensor.read(), want.read_f32(*want.find(name))) << name;
  }
}

TEST(TorchFile, ReadsWhatTorchWrote) {
  expect_equal_tensors(sample("zip.bin"), 29);
  expect_equal_tensors(sample("stream.bin"), 29);
}

TEST(TorchFile, DamagedMembersAreNamedWhenTheyAreRead) {
  const TemporaryFolder folder;
  int members = 0;
  for (const char* name : {"zip.bin", "views.bin"}) {
    const std::string good = read_text(sample(name)), path = folder / name;
    for (const ZipMember& member : read_zip(std::as_bytes(std::span(good)), name)) {
      const bool used = member.name.ends_with("/data.pkl") || member.name.find("/data/") != member.name.npos;
      if (!used || member.data.empty()) continue;
      std::string bad = good;
      const size_t begin = static_cast<size_t>(reinterpret_cast<const char*>(member.data.data()) - good.data());
      bad[begin + member.data.size() / 2] ^= 1;
      write_text(path, bad);
      const auto read_all = [&] {
        const TorchFile file(path);
        for (const TorchTensor& tensor : file.tensors()) file.read_f32(tensor);
      };
      EXPECT_ERROR(
          read_all(), ErrorKind::data,
          fmt::format("{}: the {} bytes of {} are damaged: their CRC-32 is ", path, member.data.size(), member.name));
      ++members;
    }
  }
  EXPECT_GT(members, 20);
}

TEST(ZipChecksum, OfPartsIsThatOfTheWhole) {
  std::string bytes((size_t{48} << 20) + 7, '\0');
  for (size_t i = 0; i < bytes.size(); i += 97) bytes[i] = static_cast<char>(i >> 7);
  EXPECT_EQ(zip_checksum(std::as_bytes(std::span(bytes))),
            crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
  EXPECT_EQ(zip_checksum({}), 0U);
}

TEST(TorchFile, GathersTensorsThatAreViews) { expect_equal_tensors(sample("views.bin"), 28); }

TEST(TorchFile, ReadsAPublishedBertOfTheOldFormat) {
  TRIREME_NEEDS_TEST_DATA("weights/bert-xsmall-dummy/pytorch_model.bin");
  const TorchFile file((test_data_dir() / "weights/bert-xsmall-dummy/pytorch_model.bin").string());
  std::set<std::string> names;
  for (const TorchTensor& tensor : file.tensors()) names.insert(tensor.name);
  EXPECT_TRUE(names.contains("embeddings.word_embeddings.weight"));
  EXPECT_TRUE(names.contains("encoder.layer.0.attention.self.query.weight"));
}

TEST(TorchFile, FindsNanogptsModelAndItsArguments) {
  const TorchFile file(sample("ckpt.pt"));
  EXPECT_EQ(file.model_args(),
            R"({"n_layer":2,"n_head":2,"n_embd":8,"block_size":6,"bias":true,"vocab_size":11,"dropout":0.0})");
  EXPECT_EQ(file.tensors().front().name, "_orig_mod.transformer.wte.weight");
  EXPECT_TRUE(TorchFile(sample("snapshot.pt")).model_args().empty());
  EXPECT_EQ(TorchFile(sample("snapshot.pt")).tensors().size(), TorchFile(sample("bare.pt")).tensors().size());
}

TEST(TorchFile, HandMadeFilesAreGood) {
  std::string data(24, '\0');
  for (int i = 0; i < 6; ++i) {
    const auto value = static_cast<float>(i);
    std::memcpy(data.data() + i * 4, &value, 4);
  }
  TemporaryFolder folder;
  write_text(folder / "m.bin", torch_of(pickle_of(pickle_dict({{"w", matrix({2, 3}, {3, 1})},
                                                               {"t", matrix({3, 2}, {1, 3})},
                                                               {"s", matrix({2}, {2}, 1)},
                                                               {"none", matrix({0, 4}, {1, 1}, 6)},
                                                               {"scalar", matrix({}, {}, 5)}})),
                                        data));
  const TorchFile file(folder / "m.bin");
  EXPECT_EQ(file.read_f32(file.tensors()[0]), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(file.read_f32(file.tensors()[1]), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(file.read_f32(file.tensors()[2]), (std::vector<float>{1, 3}));
  EXPECT_EQ(file.read_f32(file.tensors()[3]), std::vector<float>{});
  EXPECT_EQ(file.read_f32(file.tensors()[4]), std::vector<float>{5});
}

TEST(TorchFile, NothingIsCalledOrImported) {
  // What an attacker's __reduce__ writes, in the forms that pickles know.
  EXPECT_PICKLE_REFUSED("cos\nsystem\n(" + pickle_text("touch /tmp/x") + "tR", "names the global os.system, which no");
  EXPECT_PICKLE_REFUSED("cposix\nsystem\n", "names the global posix.system");
  EXPECT_PICKLE_REFUSED("cbuiltins\neval\n", "names the global builtins.eval");
  EXPECT_PICKLE_REFUSED(pickle_text("subprocess") + pickle_text("Popen") + "\x93", "names the global subprocess.Popen");
  EXPECT_PICKLE_REFUSED("ctorch\nload\n", "names the global torch.load");
  EXPECT_PICKLE_REFUSED("ctorch._utils\n_rebuild_tensor_v2.__globals__\n", "_rebuild_tensor_v2.__globals__");
  EXPECT_PICKLE_REFUSED("cargparse\nNamespace\n",
                        "argparse.Namespace, which no dictionary of tensors needs; no code of");
  EXPECT_PICKLE_REFUSED("(ios\nsystem\n", "the opcode INST is unsupported");
  EXPECT_PICKLE_REFUSED("(" + pickle_text("x") + "o", "the opcode OBJ is unsupported");
  EXPECT_PICKLE_REFUSED(")\x81", "the opcode NEWOBJ is unsupported");
  EXPECT_PICKLE_REFUSED("\x82\x01", "the opcode EXT1 is unsupported");
  EXPECT_PICKLE_REFUSED("Pname\n", "the opcode PERSID is unsupported");
  EXPECT_PICKLE_REFUSED("\xff", "0xff is not an opcode");
  // Allowed names are refused in other roles.
  EXPECT_PICKLE_REFUSED("ctorch\nFloatStorage\n)R", "torch.FloatStorage is called");
  EXPECT_PICKLE_REFUSED("ccollections\nOrderedDict\n(" + pickle_text("x") + "tR", "with 1 arguments, expected none");
  EXPECT_PICKLE_REFUSED("ctorch._utils\n_rebuild_tensor_v2\n)R", "a tensor of 0 arguments");
  EXPECT_PICKLE_REFUSED(pickle_text("x") + ")R", "something to call is expected");
  EXPECT_PICKLE_REFUSED("]}b", "attributes are supported for dictionaries only");
}

TEST(TorchFile, PicklesThatOnlyTakeMemoryAreStopped) {
  const auto repeated = [](const std::string& first, const std::string& part, size_t times) {
    std::string pickle = "\x80\x02" + first;
    for (size_t i = 0; i < times; ++i) pickle += part;
    return torch_of(pickle + ".");
  };
  const size_t many = Pickle::kMaxReferences + 1;
  EXPECT_REFUSED(repeated("}", "\x94", many), "stores and reads memo values more than 4000000 times");
  EXPECT_REFUSED(repeated("}q\1", std::string("h\1", 2), many), "stores and reads memo values more than 4000000 times");
  EXPECT_REFUSED(repeated("]", "(", 2000), "more than 1000 marks are open");
  EXPECT_REFUSED(repeated("]", "]", Pickle::kMaxValues + 1), "more than 2000000 values");
  EXPECT_NO_THROW(one(matrix({2, 3}, {3, 1})));
}

TEST(TorchFile, BrokenPicklesAreNamed) {
  EXPECT_REFUSED(torch_of(""), "truncated: expected 1 bytes, 0 are left");
  EXPECT_REFUSED(torch_of("\x80\x02}"), "truncated: expected 1 bytes");
  EXPECT_REFUSED(torch_of("\x80\x09."), "protocol 9; supported: 0 to 5");
  EXPECT_PICKLE_REFUSED("", "pops an empty stack");
  EXPECT_PICKLE_REFUSED("K\x01(", "pops an empty stack");
  EXPECT_PICKLE_REFUSED("t", "the mark is missing");
  EXPECT_PICKLE_REFUSED("h\x07", "nothing is stored under memo 7");
  EXPECT_PICKLE_REFUSED("}(K\x01u", "a key without a value");
  EXPECT_PICKLE_REFUSED("K\x01K\x02K\x03s", "a dictionary is expected");
  EXPECT_PICKLE_REFUSED("cabc", "truncated inside a name");
  EXPECT_PICKLE_REFUSED("X\xff\xff\xff\x7f", "truncated: expected 2147483647 bytes");
  EXPECT_PICKLE_REFUSED("\x8a\x09", "an integer of 9 bytes, at most 8");
  EXPECT_PICKLE_REFUSED("N", "has no dictionary of tensors");
  EXPECT_PICKLE_REFUSED(pickle_dict({{"epoch", "K\x01"}}), "nor under state_dict, model, model_state; it has: epoch");
  EXPECT_PICKLE_REFUSED(pickle_dict({{"w", matrix({2}, {1})}, {"n", "N"}}), "n is not a tensor");
  EXPECT_PICKLE_REFUSED(pickle_dict({{"w", matrix({2}, {1})}, {"w", matrix({2}, {1})}}), "tensor w appears twice");
}

TEST(TorchFile, TensorsLieInsideTheirStorage) {
  EXPECT_EQ(parse(one(matrix({2, 3}, {3, 1}))).tensors.size(), 1u);
  EXPECT_REFUSED(one(matrix({2, 3}, {3, 1}, 1)), "shape [2, 3] with strides [3, 1] from element 1 reaches past the 6");
  EXPECT_REFUSED(one(matrix({7}, {1})), "reaches past the 6 of its storage");
  EXPECT_REFUSED(one(matrix({2}, {6})), "reaches past the 6 of its storage");
  EXPECT_REFUSED(one(matrix({1000000000}, {0})), "shape [1000000000] has more elements than its storage, 6");
  EXPECT_REFUSED(one(matrix({2, 3}, {3})), "a tensor of 2 dims has 1 strides");
  EXPECT_REFUSED(one(matrix({0xFFFFFFFF}, {1})), "a tensor's shape is -1, expected at least 0");
  EXPECT_REFUSED(one(matrix({1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1})), "has 9 values, but at most 8");
  const std::string big = "\x8a\x08" + std::string(7, '\xff') + "\x7f";
  EXPECT_PICKLE_REFUSED(
      pickle_dict({{"w", "ctorch._utils\n_rebuild_tensor_v2\n(" + pickle_storage("FloatStorage", "0", 6) + "K\x01(" +
                             big + big + "t(" + big + big + "ttR"}}),
      "overflows");
  EXPECT_REFUSED(one(pickle_tensor(pickle_storage("FloatStorage", "1", 6), 0, {6}, {1})), "its storage 1 is missing");
  EXPECT_REFUSED(one(pickle_tensor(pickle_storage("FloatStorage", "0", 7), 0, {6}, {1})),
                 "should have 7 elements of F32, but has 24 bytes");
  EXPECT_REFUSED(one(pickle_tensor(pickle_storage("QInt8Storage", "0", 6), 0, {6}, {1})), "global torch.QInt8Storage");
}

TEST(TorchFile, BrokenContainersAreNamed) {
  const std::string good = one(matrix({2, 3}, {3, 1}));
  EXPECT_EQ(parse(good).tensors.size(), 1u);
  for (size_t n = 4; n < good.size(); n += 7) EXPECT_REFUSED(good.substr(0, n), "truncated: a ZIP file ends with its");
  const std::string pickle = pickle_of(pickle_dict({{"w", matrix({2, 3}, {3, 1})}}));
  const std::pair<std::string, std::string> content{"m/data.pkl", pickle}, data{"m/data/0", std::string(24, 'x')};
  EXPECT_EQ(parse(zip_of({content, data}, {.zip64 = true})).tensors.size(), 1u);
  EXPECT_REFUSED(zip_of({content, data}, {.method = 8}), "member m/data/0 is compressed (method 8)");
  EXPECT_REFUSED(zip_of({content, data}, {.flags = 1}), "member m/data/0 is encrypted");
  EXPECT_REFUSED(zip_of({content, data}, {.claimed_bytes = 1 << 30}), "truncated: m/data/0 needs bytes");
  EXPECT_REFUSED(zip_of({content, data, data}), "member m/data/0 appears twice");
  EXPECT_REFUSED(zip_of({data}), "is a ZIP file without NAME/data.pkl, so torch.save() did not make it");
  EXPECT_REFUSED(zip_of({{"a.npy", "x"}}), "is a ZIP file without NAME/data.pkl");
  EXPECT_REFUSED(zip_of({content, data, {"m/byteorder", "big"}}), "its numbers are \"big\" endian, expected little");
  EXPECT_REFUSED("", "is not a file of torch.save()");
  EXPECT_REFUSED("GGUF", "format GGUF is recognised but not supported here; convert it to safetensors");
  EXPECT_REFUSED("\x80\x02}.", "is not a file of torch.save()");
  EXPECT_REFUSED("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n",
                 "is a Git LFS pointer, not the file");
}

TEST(TorchFile, BrokenStreamsAreNamed) {
  const std::string good = read_text(sample("stream.bin"));
  for (size_t n = 15; n < good.size(); n += 97) EXPECT_REFUSED(good.substr(0, n), "truncated");
  std::string other = good;
  other[18] ^= 1;
  EXPECT_REFUSED(other, "version of the stream is not 1001");
}

TEST(TorchFile, MemoryIsBounded) {
  // Values that cost one byte each, and nesting that a recursive reader would not survive.
  EXPECT_PICKLE_REFUSED(std::string(Pickle::kMaxValues + 1, 'N'), "more than 2000000 values");
  EXPECT_PICKLE_REFUSED(std::string(1'000'000, '(') + "]" + std::string(1'000'000, 't'),
                        "more than 1000 marks are open");
  std::string doubled = "]";  // a list of two of the one before, 60 times over: 2^60 leaves, 120 references
  for (int i = 0; i < 60; ++i)
    doubled += "q" + std::string(1, static_cast<char>(i)) + "h" + std::string(1, static_cast<char>(i)) + "\x86";
  EXPECT_PICKLE_REFUSED(doubled, "has no dictionary");
  // One long list, that many cheap calls look at.
  std::string calls = "(" + std::string(500'000, 'N') + "tq\x01" + "ctorch\nSize\nq\x02";
  for (int i = 0; i < 500'000; ++i)
    calls +=
        "h\x02"
        "h\x01R";
  EXPECT_PICKLE_REFUSED(calls, "its first argument is expected");
}

}  // namespace
}  // namespace trireme
