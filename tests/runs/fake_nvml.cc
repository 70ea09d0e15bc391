// In place of libnvidia-ml.so.1: two H100 on NVLink, or FAKE_NVML_GPUS of them at the places of an Azure ND node.
// FAKE_NVML says what is wrong: words of `none`, `not-loaded`, `no-nvlink`, `apart`, `lost`, `old`, `mig`,
// `prohibited`, `ecc`, `narrow`, `busy`, `other`, `remap-pending`, `remap-failed`, `rows`, `retired`, `sram`, `dram`,
// `hot`, `brake`, `warm`, `capped`, `link-down`, `transient` (persistence mode is off), `refuses` (to change a mode),
// `slack` (application clocks), `inforom`, `generation-3`; from `lost` on of GPU 1; `driver-550`; of all GPUs
// `slot-of-1` (one lane of PCIe 1), `unknown-slot`. FAKE_NVML_FILE: a file with more of these words. FAKE_NVML_DRIVER:
// the driver's version.

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace {

struct Pci {
  char legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char id[32];
};
struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};

constexpr int kOk = 0, kNotSupported = 3, kNoPermission = 4, kInsufficientSize = 7, kDriverNotLoaded = 9,
              kCorruptedInforom = 14, kGpuIsLost = 15;
constexpr const char* kBuses[] = {"00000000:17:00.0", "00000000:65:00.0"};
constexpr const char* kAzureBuses[] = {"00000001:00:00.0", "00000002:00:00.0", "00000003:00:00.0", "00000008:00:00.0",
                                       "00000009:00:00.0", "0000000A:00:00.0", "0000000B:00:00.0", "0000000C:00:00.0"};
int handles[] = {0, 1, 2, 3, 4, 5, 6, 7};
bool switched_on = false, raised = false;

bool is(const char* word) {
  const char* const all = std::getenv("FAKE_NVML");
  if (all != nullptr && std::strstr(all, word) != nullptr) return true;
  const char* const file = std::getenv("FAKE_NVML_FILE");
  std::ifstream in(file != nullptr ? file : "");
  std::string text;
  std::getline(in, text);
  return text.find(word) != std::string::npos;
}
unsigned count_of_gpus() {
  const char* const count = std::getenv("FAKE_NVML_GPUS");
  return count == nullptr ? 2 : static_cast<unsigned>(std::atoi(count));
}
const char* bus_of(int index) { return (std::getenv("FAKE_NVML_GPUS") ? kAzureBuses : kBuses)[index]; }
int index_of(void* device) { return *static_cast<int*>(device); }
bool second(void* device, const char* word) { return index_of(device) == 1 && is(word); }
int text(char* to, unsigned size, const std::string& value) {
  to[value.copy(to, size - 1)] = 0;
  return kOk;
}
int number(unsigned* to, unsigned value) {
  *to = value;
  return kOk;
}

}  // namespace

extern "C" {

int nvmlInit_v2() { return is("not-loaded") ? kDriverNotLoaded : kOk; }
int nvmlShutdown() { return kOk; }
const char* nvmlErrorString(int code) { return code == kGpuIsLost ? "GPU is lost" : "Unknown Error"; }
int nvmlSystemGetDriverVersion(char* version, unsigned size) {
  const char* const given = std::getenv("FAKE_NVML_DRIVER");
  return text(version, size, given != nullptr ? given : is("driver-550") ? "550.54.14" : "580.159.04");
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return kOk;
}
int nvmlDeviceGetCount_v2(unsigned* count) { return number(count, is("none") ? 0 : count_of_gpus()); }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** device) {
  *device = &handles[i];
  return i == 1 && is("lost") ? kGpuIsLost : kOk;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  constexpr int kNotFound = 6;
  constexpr size_t kTail = 7;                      // "17:00.0"
  if (std::strlen(bus) < kTail) return kNotFound;  // the executor's GPUs are numbers
  const std::string tail = std::string(bus).substr(std::strlen(bus) - kTail);
  for (unsigned i = 0; i < count_of_gpus(); ++i) {
    *device = &handles[i];
    if (std::string(bus_of(static_cast<int>(i))).ends_with(tail)) return kOk;
  }
  return kNotFound;
}
int nvmlDeviceGetName(void* device, char* name, unsigned size) {
  return text(name, size, second(device, "other") ? "NVIDIA RTX A6000" : "NVIDIA H100 80GB HBM3");
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned size) {
  return text(uuid, size, "GPU-" + std::to_string(index_of(device)));
}
int nvmlDeviceGetPciInfo_v3(void* device, Pci* pci) {
  *pci = {};
  return text(pci->id, sizeof pci->id, bus_of(index_of(device)));
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  const unsigned long long total = 85520809984, used = second(device, "busy") ? total / 2 : 600000000;
  *memory = {total, total - used, used};
  return kOk;
}
int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  *major = second(device, "old") ? 7 : 9;
  *minor = 0;
  return kOk;
}
int nvmlDeviceGetCurrPcieLinkGeneration(void* device, unsigned* value) {
  return number(value, is("slot-of-1") ? 1 : second(device, "generation-3") ? 3 : 5);
}
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* value) {
  return is("unknown-slot") ? kNotSupported : number(value, is("slot-of-1") ? 1 : 5);
}
int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* value) {
  return number(value, is("slot-of-1") ? 1 : second(device, "narrow") ? 8 : 16);
}
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* value) { return number(value, is("slot-of-1") ? 1 : 16); }
int nvmlDeviceGetTemperature(void*, unsigned sensor, unsigned* value) {
  return sensor == 0 ? number(value, 34) : kNotSupported;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* value) { return number(value, 71200); }
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* value) { return number(value, 700000); }
int nvmlDeviceGetUtilizationRates(void* device, Utilization* value) {
  *value = {second(device, "busy") ? 97u : 0u, 0};
  return kOk;
}
int nvmlDeviceGetTotalEccErrors(void* device, unsigned type, unsigned counter, unsigned long long* errors) {
  if (type != 1 || counter != 0) return kNotSupported;
  *errors = second(device, "ecc") ? 3 : 0;
  return kOk;
}
int nvmlDeviceGetMemoryErrorCounter(void* device, unsigned type, unsigned counter, unsigned memory,
                                    unsigned long long* errors) {
  constexpr unsigned kDram = 2, kSram = 7;
  if (memory != kDram && memory != kSram) return kNotSupported;
  *errors = 0;
  if (type == 1 && counter == 0 && memory == kSram && second(device, "sram")) *errors = 2;
  if (type == 0 && counter == 1 && memory == kDram && second(device, "dram")) *errors = 30000000;
  return kOk;
}
int nvmlDeviceGetRemappedRows(void* device, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                              unsigned* failed) {
  *corrected = 0;
  *uncorrected = second(device, "rows") ? 600 : 0;
  *pending = second(device, "remap-pending") ? 1 : 0;
  return number(failed, second(device, "remap-failed") ? 1 : 0);
}
int nvmlDeviceGetRetiredPages(void* device, unsigned cause, unsigned* count, unsigned long long*) {
  *count = cause == 1 && second(device, "retired") ? 64 : 0;
  return *count == 0 ? kOk : kInsufficientSize;
}
int nvmlDeviceGetRetiredPagesPendingStatus(void*, unsigned* pending) { return number(pending, 0); }
int nvmlDeviceGetPersistenceMode(void* device, unsigned* mode) {
  return number(mode, second(device, "transient") && !switched_on ? 0 : 1);
}
int nvmlDeviceSetPersistenceMode(void*, unsigned mode) {
  if (is("refuses")) return kNoPermission;
  switched_on = mode == 1;
  return kOk;
}
int nvmlDeviceGetApplicationsClock(void* device, unsigned kind, unsigned* mhz) {
  return number(mhz, kind == 2 ? 2619 : second(device, "slack") && !raised ? 1200 : 1980);
}
int nvmlDeviceGetMaxClockInfo(void*, unsigned kind, unsigned* mhz) { return number(mhz, kind == 2 ? 2619 : 1980); }
int nvmlDeviceSetApplicationsClocks(void*, unsigned memory, unsigned graphics) {
  if (is("refuses")) return kNoPermission;
  raised = memory == 2619 && graphics == 1980;
  return kOk;
}
int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {
  *reasons = second(device, "hot")      ? 0x48
             : second(device, "brake")  ? 0x88
             : second(device, "warm")   ? 0x20
             : second(device, "capped") ? 0x4
                                        : 0x1;
  return kOk;
}
int nvmlDeviceValidateInforom(void* device) { return second(device, "inforom") ? kCorruptedInforom : kOk; }
int nvmlDeviceGetVbiosVersion(void*, char* version, unsigned size) { return text(version, size, "96.00.89.00.01"); }
int nvmlDeviceGetMigMode(void* device, unsigned* now, unsigned* pending) {
  *pending = 0;
  return number(now, second(device, "mig") ? 1 : 0);
}
int nvmlDeviceGetComputeMode(void* device, unsigned* mode) {
  return number(mode, second(device, "prohibited") ? 2 : 0);
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* up) {
  if (link >= 18 || is("no-nvlink")) return kNotSupported;
  return number(up, link != 5 || !second(device, "link-down"));
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, unsigned* type) { return number(type, 2); }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, Pci* pci) {
  *pci = {};
  return kOk;
}
int nvmlDeviceGetTopologyCommonAncestor(void*, void*, unsigned* level) { return number(level, 50); }

int nvmlDeviceGetP2PStatus(void*, void*, unsigned, unsigned* status) { return number(status, is("apart") ? 1 : 0); }

}  // extern "C"
