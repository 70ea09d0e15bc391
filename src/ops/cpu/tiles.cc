#include "ops/cpu/tiles.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "tensor/dtype.h"

namespace trireme::tiles::emulated {
namespace {

struct Registers {
  bool in_use = false;
  Shapes shapes;
  alignas(64) unsigned char bytes[kRegisters][kRows][kRowBytes] = {};
};
thread_local Registers registers;

struct {
  std::atomic<int64_t> shapes, loads, stores, products;
} counted;
void count(std::atomic<int64_t>& kind) { kind.fetch_add(1, std::memory_order_relaxed); }

void demand(bool condition, const char* what) {
  if (condition) return;
  log::error("invalid tile instruction: {}", what);
  std::abort();
}

Registers& in_use_with(int tile) {
  demand(registers.in_use, "no shapes are set");
  demand(tile >= 0 && tile < kRegisters, "no such register");
  demand(registers.shapes.rows[tile] > 0, "the register has no rows");
  return registers;
}

float float_at(const unsigned char* row, int column) {
  float value;
  std::memcpy(&value, row + 4 * column, sizeof value);
  return value;
}
float bf16_at(const unsigned char* row, int column) {
  bf16_t value;
  std::memcpy(&value, row + 2 * column, sizeof value);
  return to_float(value);
}

}  // namespace

void configure(const Shapes& shapes) {
  demand(shapes.palette == 1 && shapes.first_row == 0, "an unknown palette or first row");
  for (int i = 0; i < 16; ++i) {
    demand(shapes.rows[i] <= (i < kRegisters ? kRows : 0), "too many rows");
    demand(shapes.row_bytes[i] <= (i < kRegisters ? kRowBytes : 0) && shapes.row_bytes[i] % 4 == 0,
           "rows of odd length");
    demand((shapes.rows[i] == 0) == (shapes.row_bytes[i] == 0), "rows without bytes");
  }
  count(counted.shapes);
  registers = {};
  registers.in_use = true;
  registers.shapes = shapes;
}
void release() { registers = {}; }
bool in_use() { return registers.in_use; }
Counts counts() { return {counted.shapes, counted.loads, counted.stores, counted.products}; }

void zero(int tile) { std::memset(in_use_with(tile).bytes[tile], 0, sizeof registers.bytes[tile]); }

// Rows that a register does not have, and bytes after those of a row, become zero.
void load(int tile, const void* from, int64_t stride) {
  count(counted.loads);
  zero(tile);
  for (int row = 0; row < registers.shapes.rows[tile]; ++row)
    std::memcpy(registers.bytes[tile][row], static_cast<const unsigned char*>(from) + row * stride,
                registers.shapes.row_bytes[tile]);
}
void store(int tile, void* to, int64_t stride) {
  count(counted.stores);
  const Registers& r = in_use_with(tile);
  for (int row = 0; row < r.shapes.rows[tile]; ++row)
    std::memcpy(static_cast<unsigned char*>(to) + row * stride, r.bytes[tile][row], r.shapes.row_bytes[tile]);
}

// Even and odd elements are summed apart, each product and sum rounded once; then their sum is added. (The CPU also
// makes numbers below 1.2e-38 zero.)
void multiply_add(int sums, int a, int b) {
  count(counted.products);
  in_use_with(sums), in_use_with(a);
  Registers& r = in_use_with(b);
  const Shapes& s = r.shapes;
  demand(sums != a && sums != b && a != b, "one register twice");
  demand(s.rows[sums] == s.rows[a], "rows of the sums are not those of the first operand");
  demand(s.row_bytes[sums] == s.row_bytes[b], "columns of the sums are not those of the second operand");
  demand(s.row_bytes[a] == 4 * s.rows[b], "steps of the operands differ");
  for (int row = 0; row < s.rows[sums]; ++row) {
    float even[kColumns] = {}, odd[kColumns] = {};
    for (int k = 0; k < s.rows[b]; ++k) {
      const float left_even = bf16_at(r.bytes[a][row], 2 * k), left_odd = bf16_at(r.bytes[a][row], 2 * k + 1);
      for (int column = 0; column < s.row_bytes[sums] / 4; ++column) {
        even[column] += left_even * bf16_at(r.bytes[b][k], 2 * column);
        odd[column] += left_odd * bf16_at(r.bytes[b][k], 2 * column + 1);
      }
    }
    for (int column = 0; column < s.row_bytes[sums] / 4; ++column) {
      const float sum = float_at(r.bytes[sums][row], column) + (even[column] + odd[column]);
      std::memcpy(r.bytes[sums][row] + 4 * column, &sum, sizeof sum);
    }
  }
}

}  // namespace trireme::tiles::emulated
