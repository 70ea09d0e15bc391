#include "cluster/host_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class HostSource : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const std::string path = folder_ / name;
    write_text(path, text);
    return path;
  }
  HostSet resolve(const HostRequest& request) {
    return resolve_hosts(
        request, [this](const char* name) { return variables_.contains(name) ? variables_[name].c_str() : nullptr; });
  }
  std::string reason(const HostRequest& request) {
    try {
      resolve(request);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  static std::vector<std::string> names(const std::vector<Host>& hosts) {
    std::vector<std::string> out;
    for (const Host& host : hosts) out.push_back(host.name);
    return out;
  }
  TemporaryFolder folder_;
  std::map<std::string, std::string> variables_;
};

TEST_F(HostSource, FiltersAndTakesTheFirstNodesOfAHostfile) {
  HostRequest request;
  request.hostfile = write("hosts", "n1\nn2\nn3\n");
  request.exclude = "n1";
  EXPECT_THAT(names(resolve(request).hosts), ElementsAre("n2", "n3"));
  request.num_nodes = 1;
  const HostSet set = resolve(request);
  EXPECT_THAT(names(set.hosts), ElementsAre("n2"));
  EXPECT_EQ(set.source, "hostfile " + request.hostfile + ", 1 host");
  request.num_nodes = 3;
  EXPECT_THAT(reason(request), HasSubstr("--num-nodes 3: hostfile"));
}

TEST_F(HostSource, UsesTheCurrentSlurmJobByDefault) {
  EXPECT_THAT(resolve({}).source, HasSubstr("only this host"));
  variables_["SLURM_JOB_NODELIST"] = "n[1-2]";
  EXPECT_THAT(names(resolve({}).hosts), ElementsAre("n1", "n2"));
  HostRequest request;
  request.hosts = "x";
  EXPECT_THAT(names(resolve(request).hosts), ElementsAre("x"));
}

TEST_F(HostSource, ReportsSkippedNodesOfSinfo) {
  HostRequest request;
  request.sinfo = write("sinfo", "n1 idle\nn2 drained\n");
  const HostSet set = resolve(request);
  EXPECT_THAT(names(set.hosts), ElementsAre("n1"));
  EXPECT_THAT(names(set.skipped), ElementsAre("n2"));
  request.sinfo = write("sinfo", "n2 drained\n");
  EXPECT_THAT(reason(request), HasSubstr("none of its 1 node is usable; the first is n2 drained (drained)"));
}

TEST_F(HostSource, RefusesSeveralSources) {
  HostRequest request;
  request.hosts = "a";
  request.slurm = true;
  EXPECT_THAT(reason(request), HasSubstr("give only one"));
  request = {};
  request.partition = "p";
  EXPECT_THAT(reason(request), HasSubstr("--partition needs --sinfo; add it"));
  request = {};
  request.slurm = true;
  EXPECT_THAT(reason(request), HasSubstr("not in a Slurm job"));
}

TEST_F(HostSource, UsesDeepSpeedsDefaultHostfile) {
  HostRequest request;
  request.job_hostfile = folder_ / "absent";
  EXPECT_EQ(resolve(request).source, "only this host (no -f, no job of Slurm, PBS or LSF, no DLTS_HOSTFILE and no " +
                                         request.job_hostfile + "), 1 host");
  request.job_hostfile = write("job", "n1\nn2\n");
  EXPECT_THAT(names(resolve(request).hosts), ElementsAre("n1", "n2"));
  EXPECT_EQ(resolve(request).source, "hostfile " + request.job_hostfile + ", because -f is not set, 2 hosts");
  variables_["DLTS_HOSTFILE"] = write("dlts", "m1\nm2\nm3\n");
  EXPECT_EQ(resolve(request).source, "hostfile " + folder_ / "dlts" + " from DLTS_HOSTFILE, 3 hosts");
  variables_["PBS_NODEFILE"] = write("pbs", "p1\n");
  EXPECT_THAT(names(resolve(request).hosts), ElementsAre("p1")) << "the job around it says more";
  variables_.erase("PBS_NODEFILE");
  variables_["DLTS_HOSTFILE"] = folder_ / "nowhere";
  EXPECT_THAT(reason(request), HasSubstr("nowhere does not exist; nothing was started"));
  request.hosts = "x";
  EXPECT_THAT(names(resolve(request).hosts), ElementsAre("x"));
}

TEST_F(HostSource, OffersIdleNodesAndOthersOnRequest) {
  HostRequest request;
  request.sinfo = write("sinfo", "n1 idle\nn2 mix\nn3 alloc\nn4 resv\nn5 down\nn6 idle+cloud\nn7 idle-\nn8 comp\n");
  EXPECT_THAT(names(resolve(request).hosts), ElementsAre("n1", "n6"));
  EXPECT_EQ(resolve(request).skipped.size(), 6u);
  const std::pair<const char*, std::vector<std::string>> wanted[] = {
      {"idle,mix", {"n1", "n2", "n6"}},
      {"allocated,RESV", {"n3", "n4"}},
      {"planned", {"n7"}},
      {"comp", {"n8"}},
      {"all", {"n1", "n2", "n3", "n4", "n6", "n7", "n8"}}};
  for (const auto& [states, expected] : wanted) {
    request.states = states;
    EXPECT_EQ(names(resolve(request).hosts), expected) << states;
  }
  request.states = "idle";
  for (const Host& host : resolve(request).skipped) {
    EXPECT_EQ(host.state, host.name == "n3" ? "alloc (use it with --states alloc)" : host.state);
  }
  request.states = "happy";
  EXPECT_THAT(reason(request), HasSubstr("--states: \"happy\" is not a usable node state; expected idle, mix"));
  request.states = "idle";
  request.sinfo = write("sinfo", "n2 mix\n");
  EXPECT_THAT(reason(request),
              HasSubstr("none of its 1 node is usable; the first is n2 mix (use it with --states mix)"));
}

}  // namespace
}  // namespace trireme
