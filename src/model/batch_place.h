#pragma once
// Batches on the operators' device. Operators do not check the values of a batch: invalid ones are refused here,
// on the host, once.

#include <array>
#include <deque>
#include <memory>

#include "model/pass.h"
#include "model/spec.h"
#include "tensor/arena.h"
#include "tensor/pinned.h"

namespace trireme {

/// Throws Error::data naming the row of an id or position outside its table, Error::shape for offsets that fit no rows.
/// dropout: positions are counted on, too. batch: on the host.
void check_batch(const Spec& spec, const Batch& batch, bool dropout);

/// The rows of every sequence, if all have the same number; else 0. offsets: [sequences + 1] i32, on the host.
int64_t equal_length(ConstView offsets);

/// Brings batches to a device beside compute: through pinned memory, on a separate stream. Nothing on the host.
class BatchFeed {
 public:
  /// rows: of the largest batch.
  BatchFeed(Device& device, int64_t rows);

  /// Memory for the next bring(), aligned to 64 bytes. Waits for earlier copies only where more batches are on their
  /// way than the memory holds (16 MiB or four batches).
  std::byte* stage(size_t bytes);
  /// to = the staged bytes, once `free` is reached; what the device's default stream gets from now on runs after it.
  void bring(View to, const Event& free);
  /// At most of a batch.
  static size_t batch_bytes(int64_t rows);

 private:
  struct Sent {
    size_t end;  ///< of its bytes, as next_
    Event there;
  };
  Device& device_;
  std::unique_ptr<DeviceStream> stream_;
  PinnedMemory memory_;
  size_t next_ = 0, freed_ = 0;  ///< bytes used and free again since the start; their place is modulo the size
  size_t staged_ = 0;            ///< first byte of stage()'s
  std::deque<Sent> sent_;
};

/// One batch at a time, and the next one: on the host the given one, elsewhere a copy, whose memory is made at once.
class BatchPlace {
 public:
  /// Borrows both.
  BatchPlace(Device& device, BatchFeed& feed, int64_t rows);
  /// The given batch, which is on the host and may change as soon as this returned where it is copied; a copy says
  /// whether its sequences are equally long. Work that uses the batch before may still run; that of the one before it
  /// must have been issued before the last call.
  Batch put(const Batch& batch);
  /// [n] i32, n <= rows: the additional positions of the batch of the last put(), of generated tokens.
  ConstView put_counts(ConstView counts);

 private:
  struct Room {
    View bytes;
    Event used;  ///< by everything that its last batch was issued to
  };
  Device& device_;
  BatchFeed& feed_;
  size_t batch_bytes_ = 0;
  Arena arena_;
  std::array<Room, 2> rooms_;
  size_t now_ = 0;  ///< index in rooms_
};

}  // namespace trireme
