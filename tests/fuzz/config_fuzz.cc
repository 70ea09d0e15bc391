// Any bytes as a configuration file, native or of a dialect, YAML or Python: Error::config or a configuration.
#include <cstdlib>

#include "base/error.h"
#include "config/load.h"
#include "config/validate.h"
#include "tests/fuzz/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  // The first byte tells the kind of file.
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string path = fuzz_file(bytes, data[0] % 2 ? ".py" : ".yaml");
  try {
    trireme::validate(trireme::load_config({path}, {}));
  } catch (const trireme::Error& e) {
    if (e.kind() != trireme::ErrorKind::config) std::abort();
  }
  return 0;
}
