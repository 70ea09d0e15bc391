#pragma once
// The arrays that training changes: weights and gradients, flat over the parameter table, and the optimizer's state:
// the int16 remainder that makes bf16 weights an exact f32 master, or the f32 masters of f16 weights, and the arrays
// that the parameters' update rules keep (Parameter::states). The state covers everything or, if sharded (optim.shard),
// what this rank owns, concatenated. Sized by the table: gradients and states are of trained parameters only, which
// come first everywhere. Gradients and weights may be sharded, too. The flat arrays then hold values temporarily:
// gradients until they reach the owners' sums; owned weights and those that layers currently need. The memory of other
// elements is released.

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "model/parameter_table.h"
#include "tensor/arena.h"
#include "tensor/pinned.h"

namespace trireme {

/// What a rank keeps of a state sharded over data ranks.
struct KeptState {
  std::vector<ParameterRange> owned{};  ///< ascending; none: everything, not sharded
  bool gradients = false;               ///< gradient sums of these only
  bool weights = false;                 ///< weights of these only
  bool operator==(const KeptState&) const = default;
};

/// The values of a state that belong to elements `range` of a parameter, both counted from its first one: of a row
/// those whose first element is there.
ParameterRange values_of(const StateKind& state, const Parameter& parameter, ParameterRange range);
/// All values that a state has of what a rank holds of a parameter.
int64_t value_count(const StateKind& state, const Parameter& parameter);

/// One state of the optimizer: of all parameters that keep it, in table order, or what this rank owns of them.
struct StateArray {
  /// Adjacent values of a parameter.
  struct Held {
    int64_t parameter = 0;  ///< its offset
    int64_t first = 0, count = 0, place = 0;
  };
  StateKind kind;
  View values{};             ///< f32 (f64)
  std::vector<Held> held{};  ///< ascending
};

class TrainingState {
 public:
  /// dtype: of the weights: f32, bf16, f16, or f64 (reference). `trains` false omits gradients and states (sampling,
  /// evaluation). kept: remainder and states exist for owned elements. Reads and writes here follow work issued
  /// earlier to the device's stream.
  TrainingState(const ParameterTable& table, DType dtype, bool trains, KeptState kept = {},
                Device& device = host_device());

  View weights() const { return weights_; }      ///< [flat_count] dtype
  View gradients() const { return gradients_; }  ///< [gradient_count] f32 (f64); empty if all parameters are frozen
  /// The gradient of elements [first, first + count) after the sum over micro-batches and ranks; all must be owned if
  /// gradients are sharded.
  View summed_gradient(int64_t first, int64_t count) const {
    return shards_gradients() ? sums_.rows_slice(place_of(first), count) : gradients_.rows_slice(first, count);
  }
  // Arrays of what is owned: all in order, or at the places that for_owned() and StateArray::held give. Only
  // write_weights(), write_state(), an update and the healing of a replica write them: an element's place here is not
  // its place in the flat order.
  ConstView remainder() const { return remainder_; }  ///< i16 with bf16 weights, f32 masters with f16, else empty
  const std::vector<StateArray>& states() const { return states_; }
  /// All values of a state, in its order; empty if no parameter keeps it.
  ConstView state(std::string_view name) const;
  /// For an update: `count` values of a parameter's state from `first` on, which must all be owned and adjacent.
  View state(std::string_view name, const Parameter& parameter, int64_t first, int64_t count);
  /// The remainders of `count` owned elements; empty without any.
  View owned_remainder(int64_t count, int64_t place);
  /// Weights, remainder, states: arrays whose bits are equal on replicas, for copying.
  std::vector<View> replicated();
  bool trains() const { return trains_; }  ///< has gradients and states, as far as parameters are trained
  bool is_sharded() const { return !kept_.owned.empty(); }
  bool shards_gradients() const { return kept_.gradients; }
  bool shards_weights() const { return kept_.weights; }
  /// run(first element, count, place of the first in the remainder) for each owned run of [begin, end).
  template <class Run>
  void for_owned(int64_t begin, int64_t end, Run run) const {
    if (!is_sharded()) return run(begin, end - begin, begin);
    auto range = first_owned(begin);
    for (; range != kept_.owned.end() && range->begin < end; ++range) {
      const int64_t first = std::max(begin, range->begin), last = std::min(end, range->end);
      run(first, last - first, places_[static_cast<size_t>(range - kept_.owned.begin())] + first - range->begin);
    }
  }
  /// Calls run(first element, count) for the parts of [begin, end) whose weights it does not keep.
  template <class Run>
  void for_passing_weights(int64_t begin, int64_t end, Run run) const {
    if (!shards_weights()) return;
    for_owned(begin, end, [&](int64_t first, int64_t count, int64_t) {
      if (begin < first) run(begin, first - begin);
      begin = first + count;
    });
    if (begin < end) run(begin, end - begin);
  }
  size_t bytes() const { return arena_.peak(); }  ///< without temporary parts
  /// Bytes of a state, without allocating it; for temporary parts the most at a time.
  static size_t bytes_for(const ParameterTable& table, DType dtype, bool trains, const KeptState& kept = {});

  /// f32 master values of one parameter without padding rows: [stored_shape]. Not for a sharded state in
  /// bf16 or f16.
  void read_master(const Parameter& parameter, std::span<float> out) const;
  /// f32 master values of elements [first, first + out.size()), which must be owned if there is a
  /// remainder.
  void read_weights(int64_t first, std::span<float> out) const;
  /// Sets weights (and remainder) of one parameter from f32 master values [stored_shape]; padding rows become zero.
  void write_master(const Parameter& parameter, std::span<const float> values);
  /// Sets elements [first, first + values.size()) of the flat weights (and owned ones' remainder) from f32 master
  /// values.
  void write_weights(int64_t first, std::span<const float> values);
  /// Reads the owned values of [first, first + out.size()) of a parameter's state, each to its place in `out`.
  void read_state(std::string_view name, const Parameter& parameter, int64_t first, std::span<float> out) const;
  /// Sets the owned values of [first, first + values.size()) of a parameter's state.
  void write_state(std::string_view name, const Parameter& parameter, int64_t first, std::span<const float> values);
  /// Whether any of `count` values of a parameter's state from `first` on is owned.
  bool keeps_some(std::string_view name, const Parameter& parameter, int64_t first, int64_t count) const;
  /// Zeroes the weights of a parameter's padding rows.
  void clear_padding(const Parameter& parameter);

 private:
  const StateArray* find(std::string_view name) const;
  template <class Run>
  void for_held(std::string_view name, const Parameter& parameter, int64_t first, int64_t count, Run run) const;
  std::vector<ParameterRange>::const_iterator first_owned(int64_t begin) const {
    return std::ranges::upper_bound(kept_.owned, begin, {}, &ParameterRange::end);
  }
  /// Place of an owned element.
  int64_t place_of(int64_t element) const {
    const auto range = first_owned(element);
    return places_[static_cast<size_t>(range - kept_.owned.begin())] + element - range->begin;
  }

  KeptState kept_;
  bool trains_;
  std::vector<int64_t> places_;  ///< of the owned ranges
  Arena arena_, passing_;
  View weights_, remainder_, gradients_, sums_;
  std::vector<StateArray> states_;
  std::unique_ptr<PieceReader> reader_;
};

/// Fills every parameter by its Init: values are pure functions of (seed, parameter name, element of the complete
/// tensor), independent of layout and padding.
void initialize(TrainingState& state, const ParameterTable& table, uint64_t seed);
/// The same of the model's adapters alone.
void initialize_adapters(TrainingState& state, const ParameterTable& table, uint64_t seed);

}  // namespace trireme
