#include "plan/node_type.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

class MeasuredFiles : public testing::Test {
 protected:
  /// As `trireme bench node -J` writes it.
  static Json node(const std::string& host) {
    const auto product = [](const char* kind, const char* dtype, double flops) {
      return Json{{"kind", kind}, {"dtype", dtype}, {"rows", 4096},        {"in", 768},
                  {"out", 2304},  {"seconds", 1},   {"flops_per_s", flops}};
    };
    Json json{{"host", host}, {"cpu", "AMD EPYC"},    {"instruction_set", "avx512bf16"}, {"cores", 8},
              {"threads", 8}, {"memory_bytes", 64e9}, {"copy_bytes_per_s", 40e9},        {"triad_bytes_per_s", 50e9}};
    json["gemms"] = {product("forward", "f32", 4e11), product("weight", "f32", 3e11), product("forward", "bf16", 8e11)};
    return json;
  }
  /// As `trireme bench comm -J` writes it.
  static Json comm(const std::vector<std::string>& hosts) {
    Json json{{"config", {{"wire", "bf16"}}}, {"link", {{"name", "eth0"}, {"measured_rate", 1e9}}}};
    for (const std::string& host : hosts) json["devices"].push_back("Pid 17 on " + host);
    return json;
  }
  std::string write(const char* name, const Json& json) {
    const std::string path = dir_ / name;
    write_text(path, dump_json(json));
    return path;
  }
  TemporaryFolder dir_;
};

TEST_F(MeasuredFiles, GiveTheRatesOfANode) {
  const MeasuredMachine machine = read_measured_machine({write("n.json", node("h1"))});
  EXPECT_EQ(machine.host, "h1");
  EXPECT_FALSE(machine.network);
  const MachineRates half = trireme_rates(machine.node, 2, {.dtype = DType::bf16});
  EXPECT_DOUBLE_EQ(half.peak_flops * half.product_share, 4e11);
  EXPECT_DOUBLE_EQ(half.memory_bytes * half.pass_shares[0], 25e9);
  ASSERT_EQ(half.products.size(), 1);
  EXPECT_DOUBLE_EQ(half.products[0].flops, 4e11) << "half of the node's";
  const MachineRates full = trireme_rates(machine.node, 1, {.dtype = DType::f32});
  EXPECT_DOUBLE_EQ(full.peak_flops, 4e11);
  EXPECT_EQ(full.products.size(), 2);
  EXPECT_EQ(full.element_bytes, 4);
}

TEST_F(MeasuredFiles, OfSeveralNodesTheSlowestCounts) {
  Json slow = node("h2");
  slow["copy_bytes_per_s"] = slow["triad_bytes_per_s"] = 20e9;
  slow["gemms"][0]["flops_per_s"] = 2e11;
  const MeasuredMachine machine = read_measured_machine({write("a.json", node("h1")), write("b.json", slow)});
  EXPECT_DOUBLE_EQ(machine.node.memory_gb_per_s, 20);
  EXPECT_DOUBLE_EQ(machine.node.products[0].flops, 2e11);
  EXPECT_DOUBLE_EQ(machine.node.products[1].flops, 3e11);
}

TEST_F(MeasuredFiles, OfABusyNodeAreKnown) {
  EXPECT_EQ(read_measured_machine({write("a.json", node("h1"))}).taken, 0) << "a file of an earlier version";
  Json busy = node("h2");
  busy["processors_taken"] = 0.6;
  const std::string path = write("b.json", busy);
  const MeasuredMachine machine = read_measured_machine({write("a.json", node("h1")), path});
  EXPECT_EQ(machine.taken, 0.6);
  EXPECT_EQ(machine.busy, path);
  busy["processors_taken"] = 1.5;
  EXPECT_ERROR(read_measured_machine({write("b.json", busy)}), ErrorKind::data,
               "processors_taken is 1.5, expected a number from 0 to 1; measure again");
}

TEST_F(MeasuredFiles, OfLinksGiveTheNetworkAndTheRateInside) {
  const std::string a = write("a.json", node("h1")), b = write("b.json", node("h2"));
  MeasuredMachine machine = read_measured_machine({a, b, write("c.json", comm({"h1", "h2"}))});
  EXPECT_TRUE(machine.network);
  EXPECT_DOUBLE_EQ(machine.node.network_gbit_per_s, 8);
  Json gradient = comm({"h1", "h1", "h2", "h2"});
  gradient["gradient"] = {{{"size", 4e6}, {"gradient_seconds", 0.1}}, {{"size", 4e8}, {"gradient_seconds", 1}}};
  machine = read_measured_machine({a, b, write("c.json", gradient)});
  // A ring of 4 carries 2 * 3/4 of 0.2 GB per rank. Two ranks of each host send 2 of their 3 parts over its network.
  EXPECT_NEAR(machine.node.network_gbit_per_s, 0.3 * 2 * 2 / 3 * 8, 1e-9);
  EXPECT_EQ(machine.node.network_work, 0) << "a file of an earlier version";
  gradient["gradient"][1]["lost_seconds"] = 0.15;
  machine = read_measured_machine({a, b, write("c.json", gradient)});
  EXPECT_NEAR(machine.node.network_work, 0.15 / 0.3e9, 1e-15);
  EXPECT_DOUBLE_EQ(trireme_rates(machine.node, 2, {}).node_work, machine.node.network_work);
  gradient["gradient"][1]["lost_seconds"] = -1;
  EXPECT_ERROR(read_measured_machine({a, b, write("c.json", gradient)}), ErrorKind::data,
               "lost_seconds is -1, expected a number from 0; measure again");
  machine = read_measured_machine({a, write("c.json", comm({"h1", "h1"}))});
  EXPECT_FALSE(machine.network);
  EXPECT_DOUBLE_EQ(machine.node.link_gb_per_s, 1);
}

TEST_F(MeasuredFiles, OfOtherMachinesAreRefusedWithTheNumbers) {
  Json other = node("h2");
  other["cores"] = other["threads"] = 16;
  const std::string a = write("a.json", node("h1"));
  EXPECT_ERROR(read_measured_machine({a, write("b.json", other)}), ErrorKind::mismatch,
               "the measured nodes differ: h1");
  EXPECT_ERROR(read_measured_machine({a, write("b.json", other)}), ErrorKind::mismatch, "has 16 cores with avx512bf16");
  EXPECT_ERROR(read_measured_machine({a, write("c.json", comm({"h1", "h3"}))}), ErrorKind::mismatch,
               "was measured on h3, but no file of `bench node` is of this host: they are of h1");
  const MeasuredMachine machine = read_measured_machine({a});
  EXPECT_ERROR(
      require_same_machine(machine, node_type("azure-hb176rs-v4")), ErrorKind::mismatch,
      "the measured files are of another machine: h1 has 8 cores with avx512bf16 and 64 GB, but a node of type "
      "azure-hb176rs-v4 has 176 cores with avx512bf16 and 768 GB");
  NodeType same = machine.node;
  same.memory_gb = 68;
  require_same_machine(machine, same);
  same.memory_gb = 128;
  EXPECT_ERROR(require_same_machine(machine, same), ErrorKind::mismatch, "and 128 GB");
}

TEST_F(MeasuredFiles, WithAMistakeAreRefused) {
  const std::string a = write("a.json", node("h1"));
  EXPECT_ERROR(read_measured_machine({write("c.json", comm({"h1", "h2"}))}), ErrorKind::data,
               "no file of `trireme bench node -J`; add one of each node");
  EXPECT_ERROR(read_measured_machine({write("x.json", Json{{"a", 1}})}), ErrorKind::data,
               "x.json: neither gemms nor devices; expected a file of `trireme bench node -J`");
  Json broken = node("h1");
  broken["copy_bytes_per_s"] = 0;
  EXPECT_ERROR(read_measured_machine({write("b.json", broken)}), ErrorKind::data,
               "copy_bytes_per_s is 0, expected a positive number; measure again");
  broken = node("h1");
  broken["memory_bytes"] = 1e300;
  EXPECT_ERROR(read_measured_machine({write("b.json", broken)}), ErrorKind::data,
               "memory_bytes is 1e+300, expected at most 1e+18; measure again");
  broken = node("h1");
  broken["cores"] = 2.5;
  EXPECT_ERROR(read_measured_machine({write("b.json", broken)}), ErrorKind::data,
               "cores is 2.5, expected a whole number up to 1e+09; measure again");
  broken = comm({"h1", "h1"});
  broken["gradient"] = 5;
  EXPECT_ERROR(read_measured_machine({a, write("c.json", broken)}), ErrorKind::data,
               "c.json: gradient is 5, expected a list; expected a file of");
  broken = node("h1");
  broken["threads"] = 4;
  EXPECT_ERROR(read_measured_machine({write("b.json", broken)}), ErrorKind::mismatch,
               "4 threads measured a node of 8 cores");
  broken = node("h1");
  broken.erase("cpu");
  EXPECT_ERROR(read_measured_machine({write("b.json", broken)}), ErrorKind::data, "cpu is missing");
  broken = node("h1");
  broken["host"] = 5;
  EXPECT_ERROR(read_measured_machine({write("b.json", broken)}), ErrorKind::data, "host is 5, expected text");
  broken = node("h1");
  broken["gemms"] = Json::array();
  EXPECT_ERROR(read_measured_machine({write("b.json", broken)}), ErrorKind::data, "gemms is empty");
  broken = node("h1");
  broken["gemms"][0]["kind"] = "back";
  EXPECT_ERROR(read_measured_machine({write("b.json", broken)}), ErrorKind::data,
               "kind is \"back\", expected forward, input or weight");
  broken["gemms"][0]["dtype"] = "f8";
  EXPECT_ERROR(read_measured_machine({write("b.json", broken)}), ErrorKind::data,
               "dtype is \"f8\", expected f32 or bf16");
  broken["gemms"].erase(0);
  broken["gemms"].erase(0);
  EXPECT_ERROR(read_measured_machine({write("b.json", broken)}), ErrorKind::data, "gemms has no product in f32");
  EXPECT_ERROR(read_measured_machine({a, write("c.json", comm({"h1"}))}), ErrorKind::data,
               "measured with 1 rank, expected at least 2");
  Json nameless = comm({"h1", "h1"});
  nameless["devices"][0] = "h1";
  EXPECT_ERROR(read_measured_machine({a, write("c.json", nameless)}), ErrorKind::data,
               "devices has \"h1\", expected \"Pid N on HOST\"");
}

}  // namespace
}  // namespace trireme
