#include "checkpoint/gguf/blocks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "base/rng.h"
#include "tensor/f16.h"

namespace trireme {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

std::vector<std::byte> encoded(BlockType type, std::span<const float> values) {
  std::vector<std::byte> blocks(encoded_bytes(type, values.size()));
  encode_blocks(type, values, blocks);
  return blocks;
}

std::vector<float> decoded(BlockType type, std::span<const float> values) {
  std::vector<float> out(values.size());
  decode_blocks(type, encoded(type, values), out);
  return out;
}

std::vector<float> random_values(size_t count, float scale) {
  RandomStream random(count);
  std::vector<float> values(count);
  for (float& value : values) value = scale * static_cast<float>(2 * random.uniform() - 1);
  return values;
}

/// Exact in f32, of four magnitudes.
std::vector<float> golden_values() {
  std::vector<float> values(256);
  for (int i = 0; i < 256; ++i)
    values[static_cast<size_t>(i)] = static_cast<float>(((i * 37 + 11) % 101 - 50) / 64.0 * (1 << (i / 32 % 4)));
  return values;
}

// Made by libgguf 0.2.2 from the values above, of which the types of 32 values take the first 32:
//   i = numpy.arange(256); x = (((i*37+11)%101-50)/64*2.0**(i//32%4)).astype(numpy.float32)
//   libgguf.quantize_rows(x[None, :32], 8).tobytes().hex()
TEST(Blocks, AreThoseOfGgml) {
  const std::pair<BlockType, const char*> golden[] = {
      {BlockType::q4_0, "402ef258be1379df359bf147ac0268ce248a"},
      {BlockType::q5_0, "402ab4b4a525f4bf7b27e3ae5a16d19d4904c08c38f4"},
      {BlockType::q5_1, "532a40bab4b4a525f3bf6b27e2ae5a16d19d4904c07c38f3"},
      {BlockType::q8_0, "4d1e9dfb59b61472d02e8be947a50361be1c7ad73593f14fac0a68c62481df3d9af8"},
      {BlockType::q4_k,
       "8022132e0851a1fd080f5ffe88f1f1ffc1278dd3499e055ab0167cc2388dd3499f056bb1277cc2388ee45aa0156bb127"
       "48ad0469c0157bd1379cf358be046ac0268be2379df359be157ad1268ce248ada0156bb1277dd3499e045aa0166cc237"
       "8dd3499f055bb1267cc2388ee449af15268ce248ad0459b0157bd1379ce348ae046ac0267bd2379df359be156ac1268c"},
      {BlockType::q5_k,
       "531e512e08509fff080f5efe88f0f0ff26cc9366c9336499324c9926cd9366d9336c9936cc9b66cdb366d9326c9936cc"
       "a45f1bd7934e0ac6813df9b5602ce8a35f1bd7824e0ac6713df9b4602ce8935f915e09c5803cf8b36f2be6a26e1ad691"
       "4d09c4703cf7b36f2be7a25e1ad5814d602ce8935f1bd6824e0ac5713df9a4602ce7935f1bc6824e09b5713de8a46f2c"
       "5e1ad5914d09c4803cf7b36f2be6a25e19d5914d08c4703bf7b36f2ae6a25e19"},
      {BlockType::q6_k,
       "45df28bc059f136cf18ad367f14ade285fd67df47c048b03aa21b930b85fd65e26ac058d037bf179d258d048ce27af25"
       "83fc741d960eb62fd840b961da53fb74d258be38be24ae048b047af47ad05ad0ca40ea64ea74fb741e941ea82ec842c8"
       "bf35ad169c048cf26be069d147cf38be1a932c840d85ed76ff57d038b14aa22b6cb11b6cc61b71c61cb1cb6cb21b6cc6"
       "e74d3ad04d37904ae7913ae44d3a904d18b1c66cb11b6c861b71c61cb1c76cb22453f9248ef9138ef4538d2452f9248e"
       "f1f0e120c33f827bef11e120c13f80834096"},
  };
  const std::vector<float> values = golden_values();
  for (const auto& [type, blocks] : golden)
    EXPECT_EQ(hex(encoded(type, std::span(values).first(block_size(type).values))), blocks) << name_of(type);
}

TEST(Blocks, OfFloatsAreExactOrNearest) {
  const std::vector<float> values = random_values(4096, 3);
  EXPECT_EQ(decoded(BlockType::f32, values), values);
  const std::vector<float> halves = decoded(BlockType::f16, values), short_ones = decoded(BlockType::bf16, values);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(halves[i], to_float(to_f16(values[i])));
    EXPECT_EQ(short_ones[i], to_float(to_bf16(values[i])));
  }
}

TEST(Blocks, AreAsNearAsTheirBitsAllow) {
  // The root of the mean squared error of evenly spread values in units of their largest: a step of 2 / 2^bits over
  // the root of 12, and a third more for rounded scales.
  const std::pair<BlockType, int> bits[] = {{BlockType::q4_0, 4}, {BlockType::q5_0, 5}, {BlockType::q5_1, 5},
                                            {BlockType::q8_0, 8}, {BlockType::q4_k, 4}, {BlockType::q5_k, 5},
                                            {BlockType::q6_k, 6}};
  for (const auto& [type, count] : bits) {
    for (const float scale : {0.01f, 1.0f, 1e4f}) {
      const std::vector<float> values = random_values(size_t{1} << 16, scale), back = decoded(type, values);
      double squares = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        const double error = static_cast<double>(back[i] - values[i]) / static_cast<double>(scale);
        squares += error * error;
      }
      EXPECT_LT(std::sqrt(squares / static_cast<double>(values.size())), 4.0 / 3 * 2 / (1 << count) / std::sqrt(12.0))
          << name_of(type) << " " << scale;
    }
  }
}

TEST(Blocks, KeepZerosAndConstants) {
  for (const auto& [name, type] : Names<BlockType>::kAll) {
    EXPECT_EQ(decoded(type, std::vector<float>(256, 0.0f)), std::vector<float>(256, 0.0f)) << name;
    for (const float value : {-1.5f, 0.75f})
      for (const float back : decoded(type, std::vector<float>(256, value)))
        EXPECT_NEAR(back, value, std::fabs(value) / 128) << name;
  }
}

TEST(Blocks, OfDenormalAndHugeValuesAreFiniteOrInfiniteButNoFault) {
  for (const auto& [name, type] : Names<BlockType>::kAll) {
    for (const float scale : {0x1p-149f, 0x1p-128f, 0x1p127f}) {
      const std::vector<float> values = random_values(512, scale);
      for (const float back : decoded(type, values))
        EXPECT_TRUE(scale > 1 || std::fabs(back) <= 0x1p-24f) << name << " " << scale << " " << back;
    }
  }
}

TEST(Blocks, AreTheSameForAnyNumberOfThreads) {
  const std::vector<float> values = random_values(size_t{1} << 18, 2);
  for (const auto& [name, type] : Names<BlockType>::kAll) {
    const std::vector<std::byte> together = encoded(type, values);
    std::vector<std::byte> apart;
    const size_t few = 1024;
    for (size_t at = 0; at < values.size(); at += few) {
      const auto part = encoded(type, std::span(values).subspan(at, few));
      apart.insert(apart.end(), part.begin(), part.end());
    }
    EXPECT_EQ(together, apart) << name;
  }
}

}  // namespace
}  // namespace trireme
