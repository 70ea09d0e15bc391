#pragma once
// Destinations of a run's records. A sink may throw Error::io at any record; the reporter warns once and continues.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/choices.h"
#include "report/append_file.h"
#include "report/metrics.h"

namespace trireme {

class RunBoard;

/// The start of one attempt of a run.
struct AttemptStart {
  int64_t first_step = 0;  ///< steps done before it
  int64_t steps = 0;       ///< step at which the run ends
  RunFacts facts;
  LossUnit unit = LossUnit::token;
  std::string configuration = {};  ///< every option of the run as a JSON object of groups; empty: not recorded
  OptionFacts options = {};        ///< those of them that have an origin
};

class Sink {
 public:
  virtual ~Sink() = default;
  virtual std::string name() const = 0;  ///< for the warning: "RUN/metrics.jsonl"
  virtual void start(const AttemptStart& attempt) = 0;
  virtual void step(const Metrics& metrics) = 0;
  virtual void evaluation(const EvaluationMetrics& metrics) = 0;
  virtual void test(const TestMetrics& metrics) = 0;
  virtual void checkpoint(const CheckpointEvent& event) = 0;
  virtual void sample(const SampleText& sample) = 0;
  virtual void finish(std::string_view state, int64_t step) = 0;
};

/// Lines through the log: aligned, with the columns of log.columns (empty: those that fit), or steps in GPT-NeoX's
/// format.
enum class StepForm : uint8_t { native, neox };
std::unique_ptr<Sink> make_console_sink(StepForm form = StepForm::native, std::vector<LogColumn> columns = {});
/// One JSON object per line, appended: {"record": start|step|evaluation|test|checkpoint|sample|finish, "time": Unix
/// seconds,
/// ...} with the field names of metrics.h. The file rotates at `bytes`.
std::unique_ptr<Sink> make_jsonl_sink(const std::string& path, uint64_t bytes = kLogBytes);
/// An event file per attempt in `folder`, scalars only, and a new one whenever the last has `bytes`; keeps the last
/// kOlderLogs + 1 files of an attempt.
std::unique_ptr<Sink> make_tensorboard_sink(const std::string& folder, uint64_t bytes = kLogBytes);
/// Writes the records to the board (report/live).
std::unique_ptr<Sink> make_board_sink(std::shared_ptr<RunBoard> board);
/// The board as a file for the textfile collector of Prometheus' node_exporter: replaced as a whole after every record,
/// at most once a second, and when the run ends.
std::unique_ptr<Sink> make_textfile_sink(std::shared_ptr<RunBoard> board, const std::string& path);

struct MlflowOptions {
  std::string url;         ///< "http://HOST:5000" or "https://HOST/path"
  std::string experiment;  ///< created if it does not exist
  std::string run_name;
  std::string id_file;  ///< where the id of the server's run is kept, so that an attempt with steps before it continues
                        ///< it; empty: nowhere
  double retry_seconds = 5;  ///< after a failure; doubled after each further one, at most a minute
  double last_seconds = 10;  ///< at most, for what is left when the run ends
};

/// Sends the records to an MLflow tracking server through its REST API, from a thread of the lowest priority: whatever
/// the server does, training only puts numbers into a bounded queue. Numbers become metrics, the options parameters,
/// the facts tags. Authenticates by MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, as
/// MLflow's own client. The first failure gives a warning; what could not be sent is tried again.
std::unique_ptr<Sink> make_mlflow_sink(MlflowOptions options);

// TensorBoard's event files: records framed as TFRecord, each a serialized tensorflow.Event with scalar summaries.
// Formats: tensorflow/core/lib/io/record_writer.h (framing), util/event.proto and framework/summary.proto (fields).

/// CRC-32C (Castagnoli), reflected, initial value and final xor all ones.
uint32_t crc32c(std::string_view bytes);

/// length u64, masked CRC of it u32, bytes, masked CRC of them u32; all little-endian.
std::string tfrecord(std::string_view bytes);

/// Event {wall_time, file_version}: the first record of a file.
std::string version_event(double wall_time);
/// Event {wall_time, step, summary {value {tag, simple_value}}}.
std::string scalar_event(double wall_time, int64_t step, std::string_view tag, float value);
/// Event {wall_time, step, session_log {status START}}: supersedes earlier files' records of this and later steps.
std::string session_start_event(double wall_time, int64_t step);

}  // namespace trireme
