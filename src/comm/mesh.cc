#include "comm/mesh.h"

#include "base/count.h"
#include "base/error.h"

namespace trireme {
namespace {

/// Keeps the wanted axes while `ranks` allows it, the innermost first.
MeshShape nearest_that_fits(const MeshShape& wanted, int64_t ranks) {
  const int64_t data = wanted.data, tensor = wanted.tensor, pipeline = wanted.pipeline;
  if (ranks % (tensor * pipeline) == 0) return {ranks / (tensor * pipeline), tensor, pipeline};
  if (data > 0 && ranks % (data * tensor) == 0) return {data, tensor, ranks / (data * tensor)};
  if (ranks % tensor == 0) return {ranks / tensor, tensor, 1};
  return {ranks, 1, 1};
}

}  // namespace

MeshShape resolve_mesh(MeshShape wanted, int ranks, const std::string& source) {
  require(wanted.data >= 0 && wanted.tensor >= 1 && wanted.pipeline >= 1, ErrorKind::config,
          "mesh {} x {} x {} (data x tensor x pipeline) has an axis below 1; data 0 means all remaining ranks",
          wanted.data, wanted.tensor, wanted.pipeline);
  const int64_t others = wanted.tensor * wanted.pipeline;
  if (wanted.data == 0 && ranks % others == 0) {
    wanted.data = ranks / others;
    return wanted;
  }
  if (wanted.data * others == ranks) return wanted;
  const MeshShape fits = nearest_that_fits(wanted, ranks);
  const std::string needs = wanted.data > 0 ? count_text(wanted.data * others, "process")
                                            : fmt::format("a multiple of {}", count_text(others, "process"));
  const std::string found = source.empty()             ? "no launcher started this process, so it is the only one"
                            : source.starts_with("--") ? fmt::format("{} gives {}", source, count_text(ranks, "rank"))
                                                       : fmt::format("the launcher started {} ({})", ranks, source);
  fail(ErrorKind::config,
       "mesh {} x {} x {} needs {} but {}; set --mesh.data {} --mesh.tensor {} "
       "--mesh.pipeline {}",
       wanted.data > 0 ? std::to_string(wanted.data) : "rest", wanted.tensor, wanted.pipeline, needs, found, fits.data,
       fits.tensor, fits.pipeline);
}

std::string describe_place(const MeshShape& shape, int rank) {
  if (shape.tensor * shape.pipeline == 1) return {};
  const MeshPlace place = place_of(shape, rank);
  return fmt::format("data {}, tensor {}, pipeline {}", place.data, place.tensor, place.pipeline);
}

MeshPlace place_of(const MeshShape& shape, int rank) {
  const int tensor = static_cast<int>(shape.tensor), data = static_cast<int>(shape.data);
  return {.data = rank / tensor % data, .tensor = rank % tensor, .pipeline = rank / tensor / data};
}

std::vector<int> replicas_of(const MeshShape& shape, int rank) {
  const MeshPlace place = place_of(shape, rank);
  std::vector<int> ranks;
  for (int64_t data = 0; data < shape.data; ++data)
    ranks.push_back(static_cast<int>((place.pipeline * shape.data + data) * shape.tensor + place.tensor));
  return ranks;
}

Mesh::Mesh(Communicator& world, const MeshShape& shape) : world_(world), shape_(shape) {
  const int tensor = static_cast<int>(shape.tensor), data = static_cast<int>(shape.data);
  const MeshPlace at = place();
  data_ = world.split(at.pipeline * tensor + at.tensor, at.data);
  tensor_ = world.split(at.pipeline * data + at.data, at.tensor);
  pipeline_ = world.split(at.data * tensor + at.tensor, at.pipeline);
  for (Communicator* group : {data_.get(), tensor_.get(), pipeline_.get()}) group->report_to(world.heartbeat());
}

}  // namespace trireme
