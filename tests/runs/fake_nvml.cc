// In place of libnvidia-ml.so.1: two H100 on NVLink. FAKE_NVML says what is wrong: words of `none`, `not-loaded`,
// `no-nvlink`, `lost`, `old`, `mig`, `prohibited`, `ecc`, `narrow`, `busy`, `other`; from `lost` on of GPU 1.
// FAKE_NVML_DRIVER: its version.

#include <cstdlib>
#include <cstring>
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

constexpr int kOk = 0, kNotSupported = 3, kDriverNotLoaded = 9, kGpuIsLost = 15;
constexpr const char* kBuses[] = {"00000000:17:00.0", "00000000:65:00.0"};
int handles[] = {0, 1};

bool is(const char* word) {
  const char* const all = std::getenv("FAKE_NVML");
  return all != nullptr && std::strstr(all, word) != nullptr;
}
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
  return text(version, size, given != nullptr ? given : "580.159.04");
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return kOk;
}
int nvmlDeviceGetCount_v2(unsigned* count) { return number(count, is("none") ? 0 : 2); }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** device) {
  *device = &handles[i];
  return i == 1 && is("lost") ? kGpuIsLost : kOk;
}
int nvmlDeviceGetName(void* device, char* name, unsigned size) {
  return text(name, size, second(device, "other") ? "NVIDIA RTX A6000" : "NVIDIA H100 80GB HBM3");
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned size) {
  return text(uuid, size, "GPU-" + std::to_string(index_of(device)));
}
int nvmlDeviceGetPciInfo_v3(void* device, Pci* pci) {
  *pci = {};
  return text(pci->id, sizeof pci->id, kBuses[index_of(device)]);
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
int nvmlDeviceGetCurrPcieLinkGeneration(void*, unsigned* value) { return number(value, 5); }
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* value) { return number(value, 5); }
int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* value) {
  return number(value, second(device, "narrow") ? 8 : 16);
}
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* value) { return number(value, 16); }
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
int nvmlDeviceGetMigMode(void* device, unsigned* now, unsigned* pending) {
  *pending = 0;
  return number(now, second(device, "mig") ? 1 : 0);
}
int nvmlDeviceGetComputeMode(void* device, unsigned* mode) {
  return number(mode, second(device, "prohibited") ? 2 : 0);
}
int nvmlDeviceGetNvLinkState(void*, unsigned link, unsigned* up) { return number(up, link < 18 && !is("no-nvlink")); }
int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, unsigned* type) { return number(type, 2); }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, Pci* pci) {
  *pci = {};
  return kOk;
}
int nvmlDeviceGetTopologyCommonAncestor(void*, void*, unsigned* level) { return number(level, 50); }

}  // extern "C"
