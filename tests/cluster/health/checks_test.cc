#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "tests/cluster/health/fake_node.h"
#include "tests/support/test_data.h"

namespace trireme::health {
namespace {

using testing::HasSubstr;

class Checks : public testing::Test {
 protected:
  std::string run(const std::string& line) { return node.run(line); }
  FakeNode node;
};

TEST_F(Checks, MountsCompareTypeSourceAndMode) {
  node.file("/proc/mounts",
            "proc /proc proc rw,nosuid 0 0\n"
            "10.0.0.4:/sched /sched nfs4 rw,relatime 0 0\n"
            "tmpfs /sys/fs/cgroup tmpfs ro,nosuid 0 0\n"
            "/dev/sdb1 /mnt/my\\040disk ext4 rw 0 0\n");
  EXPECT_EQ(run("check_fs_mount_rw -t \"nfs4\" -s \"*:/sched\" -f \"/sched\""), "");
  EXPECT_EQ(run("check_fs_mount_rw -t nfs* -s *:/* -f /sched"), "");
  EXPECT_EQ(run("check_fs_mount_ro -t tmpfs -f /sys/fs/cgroup"), "");
  EXPECT_EQ(run("check_fs_mount /proc"), "");
  EXPECT_EQ(run("check_fs_mount_rw /sched '' nfs4"), "") << "empty: any, as in NHC";
  EXPECT_EQ(run("check_fs_mount_rw /sched '' ext4"), "/sched has type nfs4, expected ext4");
  EXPECT_EQ(run("check_fs_mount_rw -f \"/mnt/my disk\""), "");
  EXPECT_EQ(run("check_fs_mount_rw -f /shared"), "/shared not mounted");
  EXPECT_EQ(run("check_fs_mount_rw -f /sys/fs/cgroup"), "/sys/fs/cgroup is mounted read-only, expected read-write");
  EXPECT_EQ(run("check_fs_mount_rw -t ext4 -f /sched"), "/sched has type nfs4, expected ext4");
  EXPECT_EQ(run("check_fs_mount_rw -s *:/home -f /sched"), "/sched is mounted from 10.0.0.4:/sched, expected *:/home");
  EXPECT_TRUE(node.commands.empty()) << "no repair was asked for";
}

/// As NHC compares with the text of /proc/mounts; what it means is right, too.
TEST_F(Checks, MountsMayBeWrittenAsProcMountsWritesThem) {
  node.file("/proc/mounts",
            "/dev/sdb1 /mnt/my\\040disk ext4 rw 0 0\nhost:/a\\011b /tab\\011here nfs4 rw 0 0\n"
            "//server/x\\134y /back\\134slash cifs rw,prefix=a\\040b 0 0\nx /plain ext4 rw 0 0\n");
  for (const char* words : {"-f '/mnt/my disk'", "-f '/mnt/my\\040disk'", "-f \"/mnt/my\\040disk\"",
                            "-f /mnt/my\\040disk", "-f \"/mnt/my\\\\040disk\"", "-s 'host:/a\\011b' -f '/tab\\011here'",
                            "-s '*:/a?b' -f '/tab\there'", "-s '//server/x\\134y' -f '/back\\134slash'",
                            "-f '/back\\\\slash'", "-o '*prefix=a\\040b' -f '/back\\134slash'",
                            "-o '*prefix=a b' -f '/back\\134slash'", "-s '!*\\040*' -f /plain"}) {
    EXPECT_EQ(node.run(std::string("check_fs_mount_rw ") + words), "") << words;
  }
  EXPECT_EQ(node.run("check_fs_mount_rw -s '!*\\011*' -f '/tab\\011here'"),
            "/tab\there is mounted from host:/a\tb, expected !*\\011*");
  EXPECT_EQ(node.run("check_fs_mount_rw -f '/mnt/my\\041disk'"), "/mnt/my\\041disk not mounted");
}

TEST_F(Checks, EveryMountPointThatIsNamedIsLookedAt) {
  node.file("/proc/mounts", "x /data ext4 rw,nosuid 0 0\ny /home nfs4 ro,vers=4.2 0 0\n");
  EXPECT_EQ(run("check_fs_mount -f /gone -f /data"), "/gone not mounted");
  EXPECT_EQ(run("check_fs_mount -f /data -f /home"), "");
  EXPECT_EQ(run("check_fs_mount_rw -t ext4 /data /home"), "/home has type nfs4, expected ext4");
  EXPECT_EQ(run("check_fs_mount -F /gone -f /data"), "/gone not mounted");
  EXPECT_EQ(run("check_fs_mount -f /data/"), "") << "no regular expression, which it looks like";
  EXPECT_EQ(run("check_fs_mount -f /ata/"), "/ata not mounted");
}

TEST_F(Checks, EveryMatchOfAMountCounts) {
  node.file("/proc/mounts", "x /data ext4 rw,nosuid 0 0\n");
  EXPECT_EQ(run("check_fs_mount -o '/(^|,)nodev(,|$)/' -o '/(^|,)nosuid(,|$)/' -f /data"),
            "/data is mounted with rw,nosuid, expected /(^|,)nodev(,|$)/");
  EXPECT_EQ(run("check_fs_mount -t 'ext*' -t !ext3 -f /data"), "");
  EXPECT_EQ(run("check_fs_mount -t !ext4 -t ext* -f /data"), "/data has type ext4, expected !ext4");
}

TEST_F(Checks, NhcsOlderFormOfAMountNamesSourceTypeAndOptionsByTheirPlace) {
  node.file("/proc/mounts", "x /data ext4 rw,nosuid 0 0\n");
  EXPECT_EQ(run("check_fs_mount /data x ext4 '*nosuid*'"), "");
  EXPECT_EQ(run("check_fs_mount /data y"), "/data is mounted from x, expected y");
  EXPECT_EQ(run("check_fs_mount_rw /data x xfs"), "/data has type ext4, expected xfs");
  EXPECT_EQ(run("check_fs_mount /data x ext4 '*nodev*'"), "/data is mounted with rw,nosuid, expected *nodev*");
}

TEST_F(Checks, AMountThatMayBeMissingIsARemark) {
  node.file("/proc/mounts", "");
  EXPECT_EQ(run("check_fs_mount -0 -f /data"), "remark: /data not mounted");
  EXPECT_EQ(run("check_fs_mount -0 -f /data -f /home"), "remark: /data not mounted; /home not mounted");
}

TEST_F(Checks, AMissingMountIsMountedAndNotRemounted) {
  node.file("/proc/mounts", "");
  node.on_command = [&](const std::string& line) {
    if (line == "mount -o noatime /data") node.file("/proc/mounts", "x /data ext4 rw 0 0\n");
  };
  EXPECT_EQ(run("check_fs_mount_rw -r -O noatime -f /data"), "remark: /data mounted again");
  EXPECT_THAT(run("check_fs_mount_rw -r -f /home"), HasSubstr("/home not mounted"));
  EXPECT_EQ(node.commands.back(), "mount /home");
}

TEST_F(Checks, AMountCanBeRepairedAndIsLookedAtAgain) {
  node.file("/proc/mounts", "x /data ext4 ro 0 0\n");
  node.on_command = [&](const std::string& line) {
    if (line == "mount -o remount,rw /data") node.file("/proc/mounts", "x /data ext4 rw 0 0\n");
  };
  EXPECT_EQ(run("check_fs_mount_rw -r -f /data"), "remark: /data mounted again");
  node.file("/proc/mounts", "x /data ext4 ro 0 0\n");
  node.machine.repair = false;
  EXPECT_THAT(run("check_fs_mount_rw -r -f /data"), HasSubstr("read-only"));
}

TEST_F(Checks, SpaceComparesAsNumbers) {
  node.space = Space{1000, 95, 905, 200, 4};
  EXPECT_THAT(run("check_fs_used / 90%"), HasSubstr("/: 90.5% used (905 kB), above 90%"));
  EXPECT_EQ(run("check_fs_used / 91%"), "");
  EXPECT_EQ(run("check_fs_used / 100%"), "");
  EXPECT_EQ(run("check_fs_used / 905kB"), "");
  EXPECT_THAT(run("check_fs_used / 904"), HasSubstr("above 904"));
  EXPECT_THAT(run("check_fs_free / 10%"), HasSubstr("/: 9.5% free"));
  EXPECT_EQ(run("check_fs_free / 9%"), "");
  EXPECT_EQ(run("check_fs_size / 1000 2MB"), "");
  EXPECT_THAT(run("check_fs_size / 1MB"), HasSubstr("below 1MB"));
  EXPECT_THAT(run("check_fs_size / 1 999"), HasSubstr("above 999"));
  EXPECT_EQ(run("check_fs_iused / 98%"), "");
  EXPECT_THAT(run("check_fs_iused / 97%"), HasSubstr("98.0% used (196 inodes), above 97%"));
  EXPECT_THAT(run("check_fs_ifree / 5"), HasSubstr("below 5"));
  EXPECT_EQ(run("check_fs_inodes / 200 200"), "");
  EXPECT_EQ(run("check_fs_size / \"\" 2MB"), "") << "no lower bound";
  EXPECT_THAT(run("check_fs_size / \"\" 999"), HasSubstr("above 999"));
  node.space.reset();
  EXPECT_EQ(run("check_fs_used /gone 90%"), "/gone does not exist");
}

TEST_F(Checks, InodesHaveNhcsUnitsOfThousands) {
  node.space = Space{1000, 95, 905, 3000, 1999};
  EXPECT_EQ(run("check_fs_ifree / 1k"), "");
  EXPECT_THAT(run("check_fs_ifree / 2k"), HasSubstr("1999 inodes), below 2k"));
  EXPECT_EQ(run("check_fs_inodes / 3K 0.003M"), "");
}

TEST_F(Checks, AFileSystemThatCountsNothingIsNotFull) {
  node.space = Space{0, 0, 0, 0, 0};
  EXPECT_EQ(run("check_fs_ifree /boot/efi 1k"), "remark: /boot/efi does not count inodes");
  EXPECT_EQ(run("check_fs_inodes /boot/efi 1k"), "remark: /boot/efi does not count inodes");
  EXPECT_EQ(run("check_fs_size /proc 1k"), "remark: /proc does not count kB");
  EXPECT_EQ(run("check_fs_free /proc 1k"), "remark: /proc does not count kB");
}

TEST_F(Checks, CpusAreCountedBySocketCoreAndThread) {
  std::string text;
  for (int thread = 0; thread < 8; ++thread) {
    text += "processor\t: " + std::to_string(thread) + "\nphysical id\t: " + std::to_string(thread % 2) +
            "\ncore id\t\t: " + std::to_string(thread % 4 / 2) + "\n\n";
  }
  node.file("/proc/cpuinfo", text);
  EXPECT_EQ(run("check_hw_cpuinfo 2 4 8"), "");
  EXPECT_EQ(run("check_hw_cpuinfo 2"), "");
  EXPECT_EQ(run("check_hw_cpuinfo \"\" 4"), "");
  EXPECT_EQ(run("check_hw_cpuinfo \"\" \"\" 4"), "8 threads, expected 4");
  EXPECT_EQ(run("check_hw_cpuinfo 1 4 8"), "2 sockets, expected 1");
  EXPECT_EQ(run("check_hw_cpuinfo 2 8 8"), "4 cores, expected 8");
  EXPECT_EQ(run("check_hw_cpuinfo 2 4 16"), "8 threads, expected 16");
}

TEST_F(Checks, MemoryHasFudge) {
  node.file("/proc/meminfo",
            "MemTotal: 970 kB\nMemAvailable: 100 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\nCached: 50 kB\n");
  EXPECT_EQ(run("check_hw_physmem 1000kB 1000kB 3%"), "");
  EXPECT_EQ(run("check_hw_physmem 1000kB 1000kB 2%"), "memory is 970 kB, below 980 kB");
  EXPECT_EQ(run("check_hw_physmem 900kB 950kB"), "memory is 970 kB, above 950 kB");
  EXPECT_EQ(run("check_hw_physmem 900kB 950kB 20kB"), "");
  EXPECT_EQ(run("check_hw_swap 0kB 0kB 3%"), "");
  EXPECT_EQ(run("check_hw_swap 1kB"), "swap is 0 kB, below 1 kB");
  EXPECT_EQ(run("check_hw_mem 970 970"), "");
  EXPECT_EQ(run("check_hw_physmem_free 101"), "free memory is 100 kB, below 101 kB");
  EXPECT_EQ(run("check_hw_mem_free 100"), "");
  EXPECT_EQ(run("check_hw_swap_free 0"), "");
}

TEST_F(Checks, LoadComparesAsNumbers) {
  node.file("/proc/loadavg", "9.50 100.25 3.00 1/200 4242\n");
  EXPECT_EQ(run("check_ps_loadavg 23.0"), "") << "as text \"9.5\" is above \"23.0\"";
  EXPECT_EQ(run("check_ps_loadavg 192 192"), "");
  EXPECT_EQ(run("check_ps_loadavg 10 23.0"), "5-minute load 100.25, above 23");
}

TEST_F(Checks, InfinibandNeedsAnActivePortAtTheRate) {
  const auto port = [&](const char* device, const char* state, const char* physical, const char* rate) {
    const std::string folder = std::string("/sys/class/infiniband/") + device + "/ports/1/";
    node.file(folder + "state", state);
    node.file(folder + "phys_state", physical);
    node.file(folder + "rate", rate);
  };
  port("mlx5_ib0", "4: ACTIVE\n", "5: LinkUp\n", "200 Gb/sec (4X HDR)\n");
  port("mlx5_ib1", "1: DOWN\n", "3: Disabled\n", "200 Gb/sec (4X HDR)\n");
  EXPECT_EQ(run("check_hw_ib 200 mlx5_ib0:1"), "");
  EXPECT_EQ(run("check_hw_ib 200 mlx5_ib0"), "");
  EXPECT_EQ(run("check_hw_ib 200"), "");
  EXPECT_EQ(run("check_hw_ib"), "");
  EXPECT_EQ(run("check_hw_ib \"\" mlx5_ib0:1"), "");
  EXPECT_EQ(run("check_hw_ib 400 mlx5_ib0:1"),
            "InfiniBand port mlx5_ib0:1 runs at 200 Gb/sec (4X HDR), expected 400 Gb/s");
  EXPECT_EQ(run("check_hw_ib 200 mlx5_ib1:1"),
            "InfiniBand port mlx5_ib1:1 is 1: DOWN and 3: Disabled, expected ACTIVE and LinkUp");
  EXPECT_EQ(run("check_hw_ib 200 mlx5_ib7:1"), "found no InfiniBand port mlx5_ib7:1");
}

TEST_F(Checks, InfinibandLoopbackMeasuresEveryPort) {
  EXPECT_EQ(run("check_ib_bw_non_gdr 390"), "found no InfiniBand port");
  node.file("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  node.on_command = [&](const std::string& line) {
    node.answer(line,
                " #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n"
                " 1048576  110000  0.00  95.5  0.046\n");
  };
  EXPECT_EQ(run("check_ib_bw_non_gdr 95"), "");
  EXPECT_EQ(run("check_ib_bw_non_gdr 390"),
            "mlx5_0:1 writes 95.5 Gb/s to itself, below 390; check_hw_ib and check_ib_link_flapping may say why");
  EXPECT_THAT(node.commands.back(), HasSubstr("ib_write_bw -d mlx5_0 -i 1"));
}

TEST_F(Checks, InterfacesExist) {
  node.file("/sys/class/net/eth0/mtu", "1500\n");
  EXPECT_EQ(run("check_hw_eth eth0"), "");
  EXPECT_EQ(run("check_hw_eth ib0"), "no network interface ib0");
}

std::time_t at(const char* text) {
  std::tm fields{};
  strptime(text, "%Y-%m-%d %H:%M:%S", &fields);
  fields.tm_isdst = -1;
  return std::mktime(&fields);
}

TEST_F(Checks, LinkFlapsCountWithinTheWindow) {
  node.file("/var/log/syslog",
            "Aug 17 02:00:00 n1 systemd-networkd[1]: ib6: Lost carrier\n"
            "Aug 17 06:18:01 n1 systemd-networkd[1]: ib6: lost carrier\n"
            "Aug 17 06:18:02 n1 systemd-networkd[1]: eth0: lost carrier\n"
            "Aug 17 06:18:06 n1 systemd-networkd[1]: ib6: Gained carrier\n");
  node.machine.now = [] { return at("2024-08-17 09:00:00"); };
  EXPECT_EQ(run("check_ib_link_flapping 6"), "");
  EXPECT_EQ(run("check_ib_link_flapping 8"), "ib6 lost its carrier 2 times within 8 h");
  EXPECT_EQ(run("check_ib_link_flapping 8 3"), "");
  node.machine.now = [] { return at("2024-01-01 09:00:00"); };
  EXPECT_EQ(run("check_ib_link_flapping"), "") << "an August line in January is last year's";
}

TEST_F(Checks, RealSystemLogsOfFlappingLinks) {
  TRIREME_NEEDS_TEST_DATA("parsers/nhc/azure_1dev_6flap_syslog");
  node.machine.now = [] { return at("2024-08-17 09:00:00"); };
  node.file("/var/log/syslog", read_text(test_data_dir() / "parsers/nhc/azure_1dev_6flap_syslog"));
  EXPECT_EQ(run("check_ib_link_flapping 6"), "ib6 lost its carrier 6 times within 6 h");
  node.file("/var/log/syslog", read_text(test_data_dir() / "parsers/nhc/azure_0flap_syslog"));
  EXPECT_EQ(run("check_ib_link_flapping 6"), "");
}

TEST_F(Checks, NoSystemLogIsAFailureNotAPass) {
  EXPECT_THAT(run("check_ib_link_flapping"), HasSubstr("cannot read a system log"));
}

TEST_F(Checks, ServicesAreFoundByNameUserAndMatch) {
  node.processes = {{10, "root", "sshd", "sshd: /usr/sbin/sshd -D [listener]"},
                    {11, "rpcuser", "rpc.statd", "/sbin/rpc.statd"}};
  EXPECT_EQ(run("check_ps_service -S -u root -m 'sshd:' sshd"), "");
  EXPECT_EQ(run("check_ps_service -r -d rpc.statd nfslock"), "");
  EXPECT_EQ(run("check_ps_daemon sshd root"), "");
  EXPECT_EQ(run("check_ps_daemon crond"), "process crond is not running");
  EXPECT_EQ(run("check_ps_service -u nobody sshd"), "service sshd (process sshd of user nobody) is not running");
  EXPECT_EQ(run("check_ps_blacklist mprime"), "");
  EXPECT_EQ(run("check_ps_blacklist sshd !root"), "");
  EXPECT_EQ(run("check_ps_blacklist rpc.* !root"), "process 11 (rpc.statd) of user rpcuser must not run");
  EXPECT_TRUE(node.commands.empty());
}

TEST_F(Checks, ProcessesAreFoundByPartsOfTheirCommandLineAndNumbersOfUsers) {
  node.processes = {{10, "root", "python3", "/usr/bin/python3 /opt/agent.py --site a"}};
  EXPECT_EQ(run("check_ps_daemon '/opt/agent.py --site' root"), "");
  EXPECT_EQ(run("check_ps_daemon /usr/bin/python3 root '/opt/agent.py'"), "");
  EXPECT_EQ(run("check_ps_daemon python3 root 'other.py'"), "process python3 other.py is not running");
  EXPECT_EQ(run("check_ps_daemon agent"), "process agent is not running") << "a single word is a program's name";
  EXPECT_EQ(run("check_ps_service -u 0 python3"), "");
  EXPECT_EQ(run("check_ps_service -u '!root' python3"),
            "service python3 (process python3 of user !root) is not running");
  EXPECT_EQ(run("check_ps_blacklist python3 root '/opt/agent.py'"), "process 10 (python3) of user root must not run");
  EXPECT_EQ(run("check_ps_blacklist python3 !0 '/opt/agent.py'"), "process 10 (python3) of user root must not run")
      << "only numbers alone are users'";
}

TEST_F(Checks, AServiceThatMayBeMissingIsARemark) {
  EXPECT_EQ(run("check_ps_service -0 sshd"), "remark: service sshd (process sshd) is not running");
  EXPECT_EQ(run("check_ps_service -0 -S sshd"),
            "remark: service sshd (process sshd) is not running; `service sshd start` does not exist (code 127)");
}

TEST_F(Checks, AServiceThatMustNotRunHasASeparateAction) {
  EXPECT_EQ(run("check_ps_service -v -E 'end it' spy"), "");
  node.processes = {{10, "root", "spy", "spy"}};
  node.on_command = [&](const std::string& line) {
    if (line.find("end it") != std::string::npos) node.processes.clear();
    node.answer(line, "");
  };
  EXPECT_EQ(run("check_ps_service -V -E 'end it' spy"), "remark: spy: `end it` repaired it");
}

TEST_F(Checks, AServiceIsStartedAndLookedAtAgain) {
  node.on_command = [&](const std::string& line) {
    if (line.find("service sshd start") != std::string::npos) {
      node.processes = {{10, "root", "sshd", "sshd: x"}};
      node.answer(line, "");
    }
  };
  EXPECT_EQ(run("check_ps_service -S sshd"), "remark: sshd: `service sshd start` repaired it");
  EXPECT_THAT(run("check_ps_service -S other"), HasSubstr("is not running; `service other start` does not exist"));
  node.machine.repair = false;
  EXPECT_EQ(run("check_ps_service -S other"), "service other (process other) is not running");
}

TEST_F(Checks, CommandsAreJudgedByCodeAndLines) {
  node.answer("/bin/sh -c 'cat /etc/x'", "alpha 1\nbeta 2\n");
  EXPECT_EQ(run("check_cmd_output -m 'alpha*' -m '/beta [0-9]/' -m '!gamma*' cat /etc/x"), "");
  EXPECT_EQ(run("check_cmd_output -m 'gamma*' -e 'cat /etc/x'"), "output of `cat /etc/x`: no line matches gamma*");
  EXPECT_EQ(run("check_cmd_output -m '!/beta/' cat /etc/x"), "output of `cat /etc/x`: a line matches !/beta/");
  EXPECT_EQ(run("check_cmd_status -r 0 cat /etc/x"), "");
  EXPECT_EQ(run("check_cmd_status -r 1 cat /etc/x"), "`cat /etc/x` ended with code 0, expected code 1");
  EXPECT_THAT(run("check_cmd_status nothing-here"), HasSubstr("does not exist"));
  node.machine.run = [](const ProcessRequest& request) {
    ProcessResult result;
    result.timed_out = request.timeout < std::chrono::seconds(1);
    return result;
  };
  EXPECT_EQ(run("check_cmd_status -t 0 slow"), "") << "no limit";
}

TEST_F(Checks, MessagesAndNamesOfWrappersAreThoseOfNhc) {
  node.answer("/bin/sh -c 'cat /etc/x'", "alpha 1\n\nbeta $2\n");
  const auto failure = [&](const std::string& line) {
    const Plan plan = make_plan(parse_nhc_config("* || check_cmd_output " + line + " cat /etc/x\n"), "n1", {});
    const Outcome outcome = plan.steps.at(0).check(node.machine);
    return outcome.name + "|" + outcome.text;
  };
  EXPECT_EQ(failure("-C check_disk -m 'alpha*' -m '!gamma*'"), "|");
  EXPECT_EQ(failure("-C check_disk -O OUT -m '!beta*'"), "check_disk|output of `cat /etc/x`: a line matches !beta*");
  EXPECT_EQ(failure("-M 'bad: %m at %l (%L) of %c' -m '!beta*'"), "|bad: beta* at 2 (beta 2) of cat /etc/x.");
  EXPECT_EQ(failure("-m 'alpha*' -m a -m b -M one -M two -M 'three %m %f'"), "|two.");
  EXPECT_EQ(failure("-m a -M 'no %m in %c, %f, %l'"), "|no a in cat /etc/x, 1/1, %l.");
  node.answers["/bin/sh -c 'cat /etc/x'"].err = "gamma\n";
  EXPECT_EQ(failure("-m '!gamma'"), "|") << "only standard output counts";
  EXPECT_EQ(run("check_cmd_output -m alpha* -e 'cat /etc/x' and more"), "") << "-e is the command";
}

TEST_F(Checks, TheKernelsLogAndMoabAreLookedAtThroughTheirCommands) {
  node.answer("/bin/sh -c dmesg", "[1.0] all well\n[2.0] mce: Hardware Error\n");
  EXPECT_EQ(run("check_cmd_dmesg -m '*all well'"), "");
  EXPECT_EQ(run("check_cmd_dmesg -m '!/Hardware Error/'"), "output of `dmesg`: a line matches !/Hardware Error/");
  EXPECT_EQ(run("check_cmd_dmesg -m '!/Hardware Error/' -M 'broken at line %l'"), "broken at line 2.");
  EXPECT_THAT(run("check_cmd_dmesg -e journalctl -m x"), HasSubstr("`journalctl` does not exist"));
  for (const char* check : {"check_moab_sched", "check_moab_rm", "check_moab_torque"})
    EXPECT_THAT(run(check), HasSubstr("does not exist (code 127), expected code 0")) << check;
  node.answer("/bin/sh -c '${MDIAG_CMD:-mdiag} -S -v'", "Moab Server  Version: 7.2.1  PID: 1\nALERT:  no license\n");
  EXPECT_EQ(run("check_moab_sched -v '7.2.*'"), "");
  EXPECT_EQ(run("check_moab_sched -v '8.*'"), "Moab has version 7.2.1, expected 8.*");
  EXPECT_EQ(run("check_moab_sched -a '*license*'"), "Moab's alert: no license");
  EXPECT_THAT(run("check_moab_sched -m '*Uptime*'"), HasSubstr("no line matches *Uptime*"));
  node.answer("/bin/sh -c '${MDIAG_CMD:-mdiag} -R -v'",
              "RM[internal]  State: None\nRM[torque]  State: Active  Type: PBS\n");
  EXPECT_EQ(run("check_moab_rm"), "");
  node.answer("/bin/sh -c '${MDIAG_CMD:-mdiag} -R -v'", "RM[torque]  State: Down  Type: PBS\n");
  EXPECT_EQ(run("check_moab_rm"), "resource manager RM[torque] is Down  Type: PBS, expected Active");
  node.on_command = [&](const std::string& line) {
    if (line.find("print server") != std::string::npos) node.answer(line, "set server scheduling = False\n");
  };
  EXPECT_EQ(run("check_moab_torque"), "TORQUE does not schedule: scheduling is False");
}

TEST_F(Checks, PseudoFilesAreReadToTheirEnd) {
  node.machine.root.clear();
  EXPECT_EQ(run("check_file_contents /proc/sys/kernel/ostype Linux"), "") << "one read of megabytes is ENOMEM";
  EXPECT_EQ(run("check_file_contents /proc/sys/kernel/random/boot_id '/^[0-9a-f]+-/'"), "");
  EXPECT_EQ(run("check_file_contents /proc/meminfo '/^MemTotal: /' '/^SwapFree/' '!Never'"), "");
}

TEST_F(Checks, ALongFileIsReadToItsEnd) {
  node.file("/var/log/long", std::string(size_t{5} << 20, 'x') + "\nlast\n");
  EXPECT_EQ(run("check_file_contents /var/log/long last"), "");
}

TEST_F(Checks, FilesAreTestedLikeTest) {
  node.file("/etc/limits.conf", "* soft memlock unlimited\n");
  node.file("/etc/empty", "");
  EXPECT_EQ(run("check_file_test -r -s -f /etc/limits.conf"), "");
  EXPECT_EQ(run("check_file_test -d /etc"), "");
  EXPECT_EQ(run("check_file_test -f /etc/limits.conf /etc/none"), "/etc/none should be a plain file");
  EXPECT_EQ(run("check_file_test -s /etc/empty"), "/etc/empty should have content");
  EXPECT_EQ(run("check_file_test -x /etc/limits.conf"), "/etc/limits.conf should be executable");
  EXPECT_EQ(run("check_file_test -! -e -d /etc/none"), "");
  EXPECT_EQ(run("check_file_test -! -d -f /etc/limits.conf"), "/etc/limits.conf should not be a plain file");
  EXPECT_EQ(run("check_file_test -s '/etc/limits.*'"), "");
  EXPECT_EQ(run("check_file_test -s '/etc/*'"), "/etc/empty should have content");
  EXPECT_EQ(run("check_file_test -e '/etc/none*'"), "/etc/none* should exist");
  EXPECT_EQ(run("check_file_contents /etc/limits.conf '*memlock*'"), "");
  EXPECT_EQ(run("check_file_contents /etc/limits.conf '*nofile*'"), "/etc/limits.conf: no line matches *nofile*");
  EXPECT_EQ(run("check_file_contents /etc/none x"), "cannot read /etc/none");
}

TEST_F(Checks, FilesHaveOwnersModesAndTimes) {
  node.file("/etc/x", "");
  const std::string file = node.machine.root + "/etc/x";
  ASSERT_EQ(chmod(file.c_str(), 0640), 0);
  const std::string uid = std::to_string(geteuid()), gid = std::to_string(getegid());
  EXPECT_EQ(run("check_file_stat -m 0640 -M 0600 -u " + uid + " -g " + gid + " -n 60 -N 60 /etc/x"), "");
  EXPECT_EQ(run("check_file_stat -m 0600 /etc/x"), "/etc/x has mode 0640, expected 0600");
  EXPECT_EQ(run("check_file_stat -M 0007 /etc/x"), "/etc/x has mode 0640, expected all of 0007");
  EXPECT_EQ(run("check_file_stat -u 4711 /etc/x"), "/etc/x has user " + uid + ", expected 4711");
  EXPECT_THAT(run("check_file_stat -U nobody-here /etc/x"), HasSubstr("expected nobody-here"));
  EXPECT_THAT(run("check_file_stat -G nobody-here /etc/x"), HasSubstr("/etc/x belongs to group"));
  EXPECT_EQ(run("check_file_stat -o 60 /etc/x"), "/etc/x was modified within 60 s");
  node.machine.now = [] { return std::time(nullptr) + 3600; };
  EXPECT_EQ(run("check_file_stat -n 60 /etc/x"), "/etc/x was not modified within 60 s");
  EXPECT_EQ(run("check_file_stat -o 60 -O 60 /etc/x"), "");
  EXPECT_EQ(run("check_file_stat -m 0640 /etc/x /etc/none"), "cannot stat /etc/none: No such file or directory");
  node.machine.root.clear();
  EXPECT_EQ(run("check_file_stat -t 1 -T 3 /dev/null"), "");
  EXPECT_EQ(run("check_file_stat -t 0x1 -T 5 /dev/null"), "/dev/null has minor device number 3, expected 5");
}

TEST_F(Checks, MemoryErrorsOfMcelogAreCountedByDay) {
  const std::string command = "/bin/sh -c '${MCELOG:-mcelog} ${MCELOG_ARGS:---client}'";
  EXPECT_EQ(run("check_hw_mcelog"), "remark: this node has no mcelog");
  node.answer(command, "");
  EXPECT_EQ(run("check_hw_mcelog"), "");
  const auto dimm = [](int corrected, int uncorrected) {
    return fmt::format(
        "Memory errors\nSOCKET 0 CHANNEL 1 DIMM 0\ncorrected memory errors:\n\t325 total\n\t{} in 24h\n"
        "uncorrected memory errors:\n\t7 total\n\t{} in 24h\n",
        corrected, uncorrected);
  };
  node.answer(command, dimm(9, 0) + dimm(0, 0));
  EXPECT_EQ(run("check_hw_mcelog"), "");
  node.answer(command, dimm(0, 0) + dimm(10, 0));
  EXPECT_THAT(run("check_hw_mcelog"), HasSubstr("10 corrected memory errors of a DIMM in 24 hours, above 9"));
  setenv("MCELOG_MAX_CORRECTED_RATE", "20", 1);
  EXPECT_EQ(run("check_hw_mcelog"), "");
  unsetenv("MCELOG_MAX_CORRECTED_RATE");
  node.answer(command, dimm(0, 1));
  EXPECT_THAT(run("check_hw_mcelog"), HasSubstr("1 uncorrected memory error of a DIMM in 24 hours, above 0"));
  node.answers[command] = {1, false, "", "client connect: Connection refused\n", 0};
  EXPECT_EQ(run("check_hw_mcelog"), "remark: mcelog's daemon does not answer: client connect: Connection refused");
}

TEST_F(Checks, ProcessesOfUsersWithoutAJobAreFound) {
  node.processes = {{1, "root", "init", "/sbin/init", 0},
                    {20, "ada", "train", "train.sh --all", 2001},
                    {30, "bob", "spy", "/home/bob/spy -v", 2002}};
  node.file("/etc/login.defs", "UID_MIN 1000\nSYS_UID_MAX 999\n");
  EXPECT_THAT(run("check_ps_unauth_users"), HasSubstr("this node has no squeue"));
  const std::string asked = "squeue --noheader -w n1 -o %u";
  node.answers[asked] = {1, false, "", "no controller\n", 0};
  EXPECT_THAT(run("check_ps_unauth_users kill"), HasSubstr("remark: cannot ask Slurm whose jobs run here"));
  node.answer(asked, "ada\nada\n");
  EXPECT_EQ(run("check_ps_unauth_users"), "process 30 (spy) of user bob, who has no job here");
  EXPECT_EQ(run("check_ps_unauth_users log syslog"),
            "remark: process 30 (spy) of user bob, who has no job here; "
            "process 30 (spy) of user bob, who has no job here");
  for (const char* except : {"-n bob", "-u 2002", "-p 30", "-c spy", "-c /home/bob/spy"})
    EXPECT_EQ(run(std::string("check_ps_unauth_users ") + except), "") << except;
  EXPECT_EQ(run("check_ps_unauth_users -n carol ignore"), "");
  node.commands.clear();
  EXPECT_THAT(run("check_ps_unauth_users kill"), HasSubstr("remark: killed process 30"));
  EXPECT_EQ(node.commands.back(), "kill -9 30");
  node.machine.repair = false;
  node.commands.clear();
  EXPECT_THAT(run("check_ps_unauth_users kill die"), HasSubstr("process 30"));
  EXPECT_EQ(node.commands.back(), asked);
}

TEST_F(Checks, SocketsAreFoundInTheKernelsTables) {
  EXPECT_EQ(run("check_net_socket -p tcp"), "remark: the kernel lists no sockets (/proc/net)");
  node.file("/proc/net/tcp",
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
            "   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0\n"
            "   1: 0100007F:1F90 0200000A:D431 01 00000000:00000000 00:00000000 00000000     0        0 4243 1 0\n");
  node.file("/proc/net/tcp6",
            "   0: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A "
            "00000000:00000000 00:00000000 00000000     0        0 4244 1 0\n");
  node.file("/proc/net/unix",
            "Num       RefCount Protocol Flags    Type St Inode Path\n"
            "0000000000000000: 00000002 00000000 00010000 0001 01 4245 /run/munge/munge.socket.2\n");
  node.processes = {{10, "root", "sshd", "sshd: /usr/sbin/sshd -D", 0}};
  node.file("/proc/10/fd/x", "");
  std::filesystem::create_symlink("socket:[4242]", node.machine.root + "/proc/10/fd/3");
  for (const char* found :
       {"-p tcp -s LISTEN -l '*:22' -d sshd -u root", "-l 0.0.0.0:22", "-d '/^ssh/' -u 0",
        "-s ESTABLISHED -r '10.0.0.2:*'", "-l '*::1?:80' -p tcp6", "-p tcp -l ::1:80",
        "-p unix -t STREAM -s LISTENING -l '/run/munge/*'", "-! -d nginx", "-0 -d nginx", "-p '!udp*' -l '*:22'"}) {
    EXPECT_EQ(run(std::string("check_net_socket ") + found).find("expected"), std::string::npos) << found;
    EXPECT_THAT(run(std::string("check_net_socket ") + found), testing::Not(testing::StartsWith("no "))) << found;
  }
  EXPECT_EQ(run("check_net_socket -n web -s LISTEN -l '*:8443'"),
            "no web socket with local address *:8443, state LISTEN");
  EXPECT_EQ(run("check_net_socket -! -p 'tcp*' -s LISTEN"),
            "2 sockets with protocol tcp*, state LISTEN, expected none");
  EXPECT_EQ(run("check_net_socket -0 -d nginx"), "remark: no socket with daemon nginx");
  run("check_net_socket -d nginx -e 'start it'");
  EXPECT_EQ(node.commands.back(), "/bin/sh -c 'start it'");
  run("check_net_socket -d sshd -E 'stop it'");
  EXPECT_EQ(node.commands.back(), "/bin/sh -c 'stop it'");
}

TEST_F(Checks, DmiLinesCarryTheirSection) {
  node.answer("dmidecode",
              "# dmidecode 3.4\n\nHandle 0x0000, DMI type 0, 26 bytes\nBIOS Information\n\tVendor: ACME\n"
              "\tCharacteristics:\n\t\tPCI is supported\n\nHandle 0x0001, DMI type 1, 27 bytes\nSystem Information\n"
              "\tProduct Name: X1\n");
  EXPECT_EQ(run("check_dmi_data_match \"BIOS Information: Vendor: ACME\""), "");
  EXPECT_EQ(run("check_dmi_data_match -t 1 '*Product Name: X1'"), "");
  EXPECT_EQ(run("check_dmi_data_match '*Characteristics: PCI*'"), "");
  EXPECT_EQ(run("check_dmi_data_match -t 1 '*Vendor: ACME'"), "no DMI line matches *Vendor: ACME");
  EXPECT_EQ(run("check_dmi_data_match '!*ACME'"), "a DMI line matches !*ACME");
  EXPECT_EQ(run("check_dmi_data_match -t 'System Information' '*Product Name: X1'"), "") << "a type has a name, too";
  EXPECT_EQ(run("check_dmi_data_match -t 'System Information' '*ACME'"), "no DMI line matches *ACME");
  EXPECT_EQ(run("check_dmi_data_match BIOS Information: Vendor: ACME"), "") << "words are those of one match";
  for (const char* none : {"-!", "-n", "!"}) {
    EXPECT_EQ(run("check_dmi_data_match " + std::string(none) + " '*ACME'"), "a DMI line matches *ACME") << none;
    EXPECT_EQ(run("check_dmi_data_match " + std::string(none) + " '*EMCA'"), "") << none;
  }
  EXPECT_EQ(run("check_dmi_raw_data_match '*Vendor: ACME'"), "");
  EXPECT_EQ(run("check_dmi_raw_data_match '*Information: Vendor*'"), "no DMI line matches *Information: Vendor*");
  EXPECT_EQ(run("check_dmi_raw_data_match ! '*Vendor: ACME'"), "a DMI line matches *Vendor: ACME");
}

TEST_F(Checks, ClusterChecksLookAtCacheDisksAndArrays) {
  node.file("/proc/meminfo", "Cached: 2000000 kB\n");
  EXPECT_EQ(run("check_cpu_drop_mem_cache 3000000"), "");
  EXPECT_THAT(run("check_cpu_drop_mem_cache 1000000"), HasSubstr("cannot drop the page cache"));
  node.on_command = [&](const std::string& line) { node.answer(line, ""); };
  EXPECT_EQ(run("check_cpu_drop_mem_cache 1000000"), "remark: dropped a page cache of 2000000 kB");
  node.file("/sys/class/nvme/nvme0/model", "x");
  EXPECT_EQ(run("check_nvme_count 1"), "");
  EXPECT_EQ(run("check_nvme_count 8"), "1 NVMe device, expected 8");
  node.file("/proc/mounts", "/dev/md10 /mnt/resource_nvme xfs rw 0 0\n");
  node.file("/proc/mdstat", "Personalities : [raid0]\nmd10 : active raid0 nvme1n1[1] nvme0n1[0]\n");
  EXPECT_EQ(run("check_raid /mnt/resource_nvme 2"), "");
  EXPECT_EQ(run("check_raid /mnt/resource_nvme 8"), "md10 has 2 devices, expected 8");
  node.file("/proc/mdstat", "md10 : active raid0 nvme1n1[1](F) nvme0n1[0]\n");
  EXPECT_THAT(run("check_raid /mnt/resource_nvme 2"), HasSubstr("has a failed device"));
  EXPECT_EQ(run("check_raid /data 2"), "/data is not mounted");
}

TEST_F(Checks, MemoryBandwidthIsMeasured) {
  EXPECT_THAT(run("check_cpu_stream 1"), HasSubstr("remark: memory triad"));
  EXPECT_THAT(run("check_cpu_stream 100000000"), HasSubstr("below 100000000"));
}

TEST_F(Checks, BandwidthBetweenRanksComesFromTheCollectiveBench) {
  node.on_command = [&](const std::string& line) {
    EXPECT_THAT(
        line,
        HasSubstr(
            " launch --hosts localhost:4 --skip-preflight -- bench comm all_reduce -b 1M -e 1M -n 5 --device cpu -J "));
    write_text(line.substr(line.rfind(' ') + 1), R"({"average_bus_bandwidth":{"bandwidth":9.5,"okay":true}})");
    node.answer(line, "localhost[0] # Avg bus bandwidth    : 1.5\n");
  };
  EXPECT_EQ(run("check_comm_bandwidth 2 4 1M"), "remark: all_reduce among 4 ranks at 9.50 GB/s");
  EXPECT_EQ(run("check_comm_bandwidth 23.0 4 1M"), "all_reduce among 4 ranks at 9.50 GB/s, below 23.00")
      << "as text \"9.5\" is above \"23.0\"";
  node.on_command = [&](const std::string& line) { node.answers[line] = {2, false, "", "error: no mpirun\nmore", 0}; };
  EXPECT_EQ(run("check_comm_bandwidth 1"), "trireme bench comm ended with code 2: error: no mpirun");
}

TEST_F(Checks, PingFailsWithTheHost) {
  node.answer("ping -q -c 1 -W 5 gw", "");
  EXPECT_EQ(run("check_net_ping gw"), "");
  EXPECT_THAT(run("check_net_ping gw other"), HasSubstr("cannot check whether other answers ping"));
  EXPECT_THAT(run("check_net_ping gw other"), HasSubstr("this node has no program ping; install iputils-ping"));
  node.answers["ping -q -c 1 -W 5 mute"] = {1, false, "", "", 0};
  EXPECT_EQ(run("check_net_ping mute"), "mute does not answer ping (ended with code 1)");
  run("check_net_ping -I eth0 -w 3 -t 2 gw");
  EXPECT_EQ(node.commands.back(), "ping -q -c 1 -W 5 -I eth0 -t 2 -w 3 gw");
}

}  // namespace
}  // namespace trireme::health
