#include "ops/nvml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace trireme::nvml {

Library::Library(const std::string& file) : opened_(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (opened_ == nullptr) fail(ErrorKind::io, "{}", dlerror());
}

std::string Library::reason(int code) const {
  using Function = const char*(int);
  auto* const function = reinterpret_cast<Function*>(dlsym(opened_, "nvmlErrorString"));
  const char* const text = function == nullptr ? nullptr : function(code);
  return text == nullptr ? fmt::format("code {}", code) : fmt::format("{} (code {})", text, code);
}

bool is_there(const std::string& file) {
  void* const opened = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (opened != nullptr) dlclose(opened);
  return opened != nullptr;
}

Session::Session(const std::string& file) : library_(file) {
  const int started = library_.call("nvmlInit_v2");
  require(started != kDriverNotLoaded, ErrorKind::usage,
          "NVIDIA's driver is installed but not loaded (modprobe nvidia shows why)");
  require(started == kSuccess, ErrorKind::usage, "NVIDIA's management library does not start: {}",
          library_.reason(started));
}

std::string bus_of(const Pci& pci) { return std::string(pci.id, strnlen(pci.id, sizeof pci.id)); }

std::string bus_of(const Library& library, Device device) {
  const auto pci = library.number<Pci>("nvmlDeviceGetPciInfo_v3", device);
  return pci ? bus_of(*pci) : "";
}

std::string linux_bus(std::string bus) {
  if (bus.size() > 12 && bus.starts_with("0000")) bus.erase(0, 4);  // the library's domain has 8 digits, Linux's has 4
  std::ranges::transform(bus, bus.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return bus;
}

std::optional<unsigned long long> clock_reasons(const Library& library, Device device) {
  using Bits = unsigned long long;
  if (const auto bits = library.number<Bits>("nvmlDeviceGetCurrentClocksEventReasons", device)) return bits;
  return library.number<Bits>("nvmlDeviceGetCurrentClocksThrottleReasons", device);  // of drivers before 535
}

}  // namespace trireme::nvml
