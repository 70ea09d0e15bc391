
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cmath>

#include "report/append_file.h"
#include "report/sink.h"

namespace trireme {
namespace {

constexpr uint32_t kCastagnoli = 0x82F63B78;  // 0x1EDC6F41 reflected
constexpr uint32_t kMaskDelta = 0xA282EAD8;

// Protobuf wire types.
constexpr uint32_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kCastagnoli : 0);
    table[i] = crc;
  }
  return table;
}();

template <class Unsigned>
void put_fixed(std::string& out, Unsigned value) {
  for (size_t i = 0; i < sizeof value; ++i) out += static_cast<char>((value >> (8 * i)) & 0xFF);
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}

void put_tag(std::string& out, uint32_t field, uint32_t wire_type) { put_varint(out, field << 3 | wire_type); }

void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_tag(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string event(double wall_time, int64_t step) {
  std::string out;
  put_tag(out, 1, kFixed64);
  put_fixed(out, std::bit_cast<uint64_t>(wall_time));
  put_tag(out, 2, kVarint);
  put_varint(out, static_cast<uint64_t>(step));
  return out;
}

uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + kMaskDelta; }

class TensorboardSink : public Sink {
 public:
  /// TensorBoard reads the files of a folder in the order of their names: start time first.
  TensorboardSink(const std::string& folder, uint64_t bytes)
      : stem_(fmt::format("{}/events.out.tfevents.{:010}.{}.{}", folder, static_cast<int64_t>(unix_time()), host(),
                          getpid())),
        bytes_(bytes),
        file_(std::make_unique<AppendFile>(part(0))) {}
  std::string name() const override { return file_->path(); }

  void start(const AttemptStart& attempt) override {
    const double now = unix_time();
    pending_ = tfrecord(version_event(now)) + tfrecord(session_start_event(now, attempt.first_step + 1));
    flush();
  }
  void step(const Metrics& m) override {
    scalar(m.step, "train/loss", m.loss);
    scalar(m.step, "train/mean_loss", m.interval_loss);
    if (m.epoch) scalar(m.step, "train/epoch", *m.epoch);
    if (m.perplexity) scalar(m.step, "train/perplexity", *m.perplexity);
    scalar(m.step, "train/learning_rate", m.learning_rate);
    scalar(m.step, "train/gradient_norm", m.gradient_norm);
    scalar(m.step, "train/skipped", static_cast<double>(m.skipped));
    for (const auto& [name, value] : m.values) scalar(m.step, "train/" + name, value);
    if (m.loss_scale) scalar(m.step, "train/loss_scale", *m.loss_scale);
    scalar(m.step, "speed/tokens_per_second", m.tokens_per_second);
    scalar(m.step, "speed/samples_per_second", m.samples_per_second);
    scalar(m.step, "speed/flops_per_second", m.flops_per_second);
    scalar(m.step, "speed/updates_per_second", m.updates_per_second);
    scalar(m.step, "speed/ms_per_step", m.ms_per_step);
    scalar(m.step, "speed/exposed_share", m.exposed_share);
    scalar(m.step, "speed/mfu", m.mfu);
    if (m.memory_bytes > 0) scalar(m.step, "memory/resident_gb", static_cast<double>(m.memory_bytes) / 1e9);
    if (m.gpu_memory_size > 0) scalar(m.step, "memory/gpu_gb", static_cast<double>(m.gpu_memory_bytes) / 1e9);
    if (m.gpu) {
      scalar(m.step, "gpu/busy", m.gpu->busy);
      scalar(m.step, "gpu/watts", m.gpu->watts);
      scalar(m.step, "gpu/celsius", m.gpu->celsius);
      scalar(m.step, "gpu/uncorrected_errors", m.gpu->errors);
    }
    flush();
  }
  void evaluation(const EvaluationMetrics& m) override {
    if (m.validation_loss) {
      scalar(m.step, "validation/loss", *m.validation_loss);
      if (m.unit == LossUnit::token) scalar(m.step, "validation/perplexity", std::exp(*m.validation_loss));
    }
    for (const auto& [name, value] : m.values) scalar(m.step, "validation/" + name, value);
    if (m.train_loss) scalar(m.step, "validation/train_loss", *m.train_loss);
    flush();
  }
  void test(const TestMetrics& m) override {
    scalar(m.step, "test/loss", m.loss);
    scalar(m.step, "test/perplexity", std::exp(m.loss));
    flush();
  }
  void checkpoint(const CheckpointEvent&) override {}  // has no scalar
  void sample(const SampleText&) override {}           // has no scalar
  void finish(std::string_view, int64_t) override {}

 private:
  static std::string host() {
    char name[256] = {};
    return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
  }
  void scalar(int64_t step, std::string_view tag, double value) {
    records_ += tfrecord(scalar_event(unix_time(), step, tag, static_cast<float>(value)));
  }
  /// Writes the records of one call together. Drops records that cannot be written, except the file's head: without it
  /// the file is unreadable, so it stays first until it is written.
  void flush() {
    const std::string records = std::exchange(records_, {});
    if (file_->size() >= bytes_) begin_part();
    file_->append(pending_ + records);
    pending_.clear();
  }
  /// TensorBoard reads a file to its end before the next name, so the full file keeps its name.
  void begin_part() {
    file_ = std::make_unique<AppendFile>(part(++parts_));
    pending_ = tfrecord(version_event(unix_time()));
    if (parts_ > kOlderLogs) unlink(part(parts_ - kOlderLogs - 1).c_str());
  }
  std::string part(int number) const { return number == 0 ? stem_ : fmt::format("{}.{:06}", stem_, number); }

  std::string stem_;
  uint64_t bytes_;
  int parts_ = 0;
  std::unique_ptr<AppendFile> file_;
  std::string pending_, records_;
};

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<uint8_t>(c)) & 0xFF];
  return ~crc;
}

std::string tfrecord(std::string_view bytes) {
  std::string out;
  put_fixed(out, uint64_t{bytes.size()});
  put_fixed(out, masked(crc32c(out)));
  out += bytes;
  put_fixed(out, masked(crc32c(bytes)));
  return out;
}

std::string version_event(double wall_time) {
  std::string out = event(wall_time, 0);
  put_bytes(out, 3, "brain.Event:2");
  return out;
}

std::string scalar_event(double wall_time, int64_t step, std::string_view tag, float value) {
  std::string entry, summary, out = event(wall_time, step);
  put_bytes(entry, 1, tag);
  put_tag(entry, 2, kFixed32);
  put_fixed(entry, std::bit_cast<uint32_t>(value));
  put_bytes(summary, 1, entry);
  put_bytes(out, 5, summary);
  return out;
}

std::string session_start_event(double wall_time, int64_t step) {
  std::string out = event(wall_time, step), session_log;
  put_tag(session_log, 1, kVarint);
  put_varint(session_log, 1);  // START
  put_bytes(out, 7, session_log);
  return out;
}

std::unique_ptr<Sink> make_tensorboard_sink(const std::string& folder, uint64_t bytes) {
  return std::make_unique<TensorboardSink>(folder, bytes);
}

}  // namespace trireme
