#include "checkpoint/manifest_plan.h"

#include "base/hash.h"
#include "checkpoint/run_folder.h"

namespace trireme {
namespace {

void add_shard(Manifest& manifest, const ParameterTable& table, int ranks, int rank) {
  const std::vector<Slice> slices = plan_slices(table, ranks, rank, manifest.moments);
  std::vector<SafetensorsEntry> entries = shard_entries(table, slices);
  const size_t header = plan_safetensors(entries, shard_metadata()).size();
  for (size_t i = 0; i < slices.size(); ++i) {
    manifest.slices.push_back({slices[i].parameter, slices[i].part, static_cast<size_t>(rank), slices[i].first_row,
                               slices[i].rows, header + entries[i].begin, header + entries[i].end, 0});
  }
  manifest.shards.push_back({shard_name(rank, ranks), header + (entries.empty() ? 0 : entries.back().end), header, 0});
}

}  // namespace

std::vector<SafetensorsEntry> shard_entries(const ParameterTable& table, const std::vector<Slice>& slices) {
  std::vector<SafetensorsEntry> entries;
  for (const Slice& slice : slices) {
    const Parameter rows = rows_of(table.all()[slice.parameter], slice.first_row, slice.rows);
    SafetensorsEntry entry{stored_name(rows.name, slice.part), "F32", {}};
    for (int d = 0; d < rows.stored_shape.dims(); ++d) entry.shape.push_back(rows.stored_shape[d]);
    entries.push_back(std::move(entry));
  }
  return entries;
}

SafetensorsMetadata shard_metadata() { return {{"format", "trireme"}}; }

Manifest plan_manifest(const ParameterTable& table, const CheckpointFacts& facts, int ranks, bool moments) {
  Manifest manifest;
  manifest.facts = facts;
  manifest.moments = moments;
  manifest.has_tokenizer = !facts.tokenizer_json.empty();
  manifest.tokenizer_hash = xxh3(std::as_bytes(std::span(facts.tokenizer_json)));
  for (const Parameter& p : table.all()) {
    manifest.parameters.push_back({p.name, {}});
    for (int d = 0; d < p.stored_shape.dims(); ++d) manifest.parameters.back().shape.push_back(p.stored_shape[d]);
  }
  for (int rank = 0; rank < ranks; ++rank) add_shard(manifest, table, ranks, rank);
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
