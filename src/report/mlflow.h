#pragma once
// Sends a run's records to an MLflow tracking server through its REST API, from a thread of the lowest priority.
// Whatever the server does, training only puts numbers into a bounded queue.

#include <memory>
#include <string>

#include "report/sink.h"

namespace trireme {

struct MlflowOptions {
  std::string url;         ///< "http://HOST:5000" or "https://HOST/path"
  std::string experiment;  ///< created if it does not exist
  std::string run_name;
  std::string id_file;  ///< where the id of the server's run is kept, so that an attempt with steps before it continues
                        ///< it; empty: nowhere
  double retry_seconds = 5;  ///< after a failure; doubled after each further one, at most a minute
  double last_seconds = 10;  ///< at most, for what is left when the run ends
};

/// Sends numbers as metrics, the options as parameters, the facts as tags, and how the run ended. Authenticates by
/// MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, as MLflow's own client. The first
/// failure gives a warning; what could not be sent is tried again.
std::unique_ptr<Sink> make_mlflow_sink(MlflowOptions options);

}  // namespace trireme
