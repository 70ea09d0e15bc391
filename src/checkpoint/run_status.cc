#include "checkpoint/run_status.h"

#include "base/file.h"
#include "checkpoint/json_fields.h"

namespace trireme {

void write_status(const std::string& run_dir, const RunStatus& status) {
  const Json json{{"state", status.state},    {"code", status.code}, {"step", status.step},
                  {"rank", status.rank},      {"host", status.host}, {"message", status.message},
                  {"control", status.control}};
  write_text(run_dir + "/status.json", json.dump() + "\n");
}

RunStatus read_status(const std::string& run_dir) {
  const std::string path = run_dir + "/status.json";
  const Json json = read_json(path, 1 << 16);
  return {json_field<std::string>(json, "state", path),  static_cast<int>(json_field<int64_t>(json, "code", path)),
          json_field<int64_t>(json, "step", path),       static_cast<int>(json_field<int64_t>(json, "rank", path)),
          json_field<std::string>(json, "host", path),   json_field<std::string>(json, "message", path),
          json_field<std::string>(json, "control", path)};
}

}  // namespace trireme
