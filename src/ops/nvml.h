#pragma once
// NVIDIA's management library, a part of the driver, found at run time. It is declared here because the driver comes
// without nvml.h. NVIDIA keeps it compatible: names with _v2 and _v3 are their own versions.

#include <dlfcn.h>

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace trireme::nvml {

inline constexpr const char* kFile = "libnvidia-ml.so.1";

constexpr int kSuccess = 0, kNotSupported = 3, kInsufficientSize = 7, kDriverNotLoaded = 9, kCorruptedInforom = 14;
constexpr unsigned kMostLinks = 18;

using Device = void*;
struct Memory {
  unsigned long long total, free, used;
};
struct Pci {
  char legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char id[32];
};
struct Utilization {
  unsigned gpu, memory;
};

class Library {
 public:
  /// Throws Error::io with what the loader says.
  explicit Library(const std::string& file = kFile);
  ~Library() {
    if (opened_ != nullptr) dlclose(opened_);
  }
  Library(Library&& other) noexcept : opened_(std::exchange(other.opened_, nullptr)) {}
  Library& operator=(Library&&) = delete;

  /// The function's code; kNotSupported where this driver has no such function.
  template <class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    using Function = int(Arguments...);
    auto* const function = reinterpret_cast<Function*>(dlsym(opened_, name));
    return function == nullptr ? kNotSupported : function(arguments...);
  }
  /// "GPU is lost (code 15)"
  std::string reason(int code) const;

  /// The number that a function writes for a GPU; nothing if it has none.
  template <class T, class... Arguments>
  std::optional<T> number(const char* name, Arguments... arguments) const {
    T value{};
    if (call(name, arguments..., &value) != kSuccess) return std::nullopt;
    return value;
  }
  template <size_t size, class... Arguments>
  std::string text(const char* name, Arguments... arguments) const {
    char value[size] = {};
    if (call(name, arguments..., static_cast<char*>(value), static_cast<unsigned>(size)) != kSuccess) return "";
    return std::string(value, strnlen(value, size));
  }

 private:
  void* opened_;
};

/// Whether the loader finds the library.
bool is_there(const std::string& file = kFile);

/// The library between its start and its end.
class Session {
 public:
  /// Throws Error::io with the loader's words if there is no library, Error::usage if it does not start, with why.
  explicit Session(const std::string& file = kFile);
  ~Session() { library_.call("nvmlShutdown"); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  const Library& operator*() const { return library_; }
  const Library* operator->() const { return &library_; }

 private:
  Library library_;
};

std::string bus_of(const Pci& pci);
/// "00000000:17:00.0"; empty if the library does not know it.
std::string bus_of(const Library& library, Device device);

/// A PCI bus as Linux writes it, of any form of NVIDIA's: "0000:17:00.0" of "00000000:17:00.0" and "0000:17:00.0".
std::string linux_bus(std::string bus);

/// The names that nvidia-smi gives to what holds a GPU's clocks down, by NVML's bits.
struct ClockReason {
  unsigned long long bit;
  const char* name;
  const char* label;  ///< of metrics
  bool protects;      ///< the hardware slows down to protect itself: something is wrong
};
constexpr unsigned long long kIdle = 0x1;
inline constexpr ClockReason kClockReasons[] = {
    {kIdle, "Idle", "idle", false},
    {0x2, "Applications Clocks Setting", "applications_clocks_setting", false},
    {0x4, "SW Power Cap", "sw_power_cap", false},
    {0x8, "HW Slowdown", "hw_slowdown", true},
    {0x10, "Sync Boost", "sync_boost", false},
    {0x20, "SW Thermal Slowdown", "sw_thermal_slowdown", false},
    {0x40, "HW Thermal Slowdown", "hw_thermal_slowdown", true},
    {0x80, "HW Power Brake Slowdown", "hw_power_brake_slowdown", true},
    {0x100, "Display Clock Setting", "display_clock_setting", false},
};
/// Of a GPU now, as bits of kClockReasons.
std::optional<unsigned long long> clock_reasons(const Library& library, Device device);

}  // namespace trireme::nvml
