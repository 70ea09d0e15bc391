#pragma once
// TensorBoard's event files: records framed as TFRecord, each a serialized tensorflow.Event with scalar summaries.
// Formats: tensorflow/core/lib/io/record_writer.h (framing), util/event.proto and framework/summary.proto (fields).

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

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
