#include "checkpoint/snapshot/manifest.h"

#include "base/hash.h"
#include "checkpoint/run_folder/run_folder.h"

namespace trireme {
namespace {

void add_shard(Manifest& manifest, const ParameterTable& whole, const std::vector<Slice>& slices, int ranks) {
  const size_t shard = manifest.shards.size();
  std::vector<SafetensorsEntry> entries = shard_entries(whole, slices);
  const size_t header = plan_safetensors(entries, shard_metadata()).size();
  for (size_t i = 0; i < slices.size(); ++i) {
    const int64_t rows = piece_rows(slices[i].box), pieces = (slices[i].box.count[0] - 1) / rows + 1;
    manifest.slices.push_back({slices[i].parameter, std::string(slices[i].part), shard, slices[i].box,
                               header + entries[i].begin, header + entries[i].end, rows,
                               std::vector<uint64_t>(static_cast<size_t>(pieces))});
  }
  manifest.shards.push_back(
      {shard_name(static_cast<int>(shard), ranks), header + (entries.empty() ? 0 : entries.back().end), header, 0});
}

}  // namespace

std::vector<SafetensorsEntry> shard_entries(const ParameterTable& whole, const std::vector<Slice>& slices) {
  std::vector<SafetensorsEntry> entries;
  for (const Slice& slice : slices) {
    SafetensorsEntry entry{stored_name(whole.all()[slice.parameter].name, slice.part), "F32", {}};
    for (int d = 0; d < slice.box.dims(); ++d) entry.shape.push_back(slice.box.count[d]);
    entries.push_back(std::move(entry));
  }
  return entries;
}

SafetensorsMetadata shard_metadata() { return {{"format", "trireme"}}; }

Manifest plan_manifest(const ParameterTable& whole, std::span<const std::vector<Slice>> slices_of_ranks,
                       const CheckpointFacts& facts, bool states) {
  Manifest manifest;
  manifest.facts = facts;
  manifest.facts.parameter_hash = hex64(0);  // takes the room of the one that is known once all is written
  manifest.has_tokenizer = !facts.tokenizer_json.empty();
  manifest.tokenizer_hash = xxh3(std::as_bytes(std::span(facts.tokenizer_json)));
  for (const Parameter& p : whole.all()) {
    StoredParameter& stored = manifest.parameters.emplace_back(StoredParameter{p.name, p.stored_shape, {}});
    if (!states) continue;
    for (const StateKind& state : p.states) stored.states.emplace_back(state.name);
  }
  const auto ranks = static_cast<int>(slices_of_ranks.size());
  for (const std::vector<Slice>& slices : slices_of_ranks) add_shard(manifest, whole, slices, ranks);
  return manifest;
}

std::vector<uint64_t> file_sizes(const Manifest& planned) {
  std::vector<uint64_t> sizes;
  for (const StoredShard& shard : planned.shards) sizes.push_back(shard.bytes);
  sizes.push_back(write_manifest(planned).size());
  if (planned.has_tokenizer) sizes.push_back(planned.facts.tokenizer_json.size());
  return sizes;
}

}  // namespace trireme
