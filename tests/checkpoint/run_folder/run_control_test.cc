#include "checkpoint/run_folder/run_control.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/host.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

class RunControlFile : public ::testing::Test {
 protected:
  static RunControl control() {
    return {"5ecret", ControlPlace::here({"10.0.0.1:4000", "127.0.0.1:4000"}),
            ControlPlace{"h9", "boot", 7, {"10.0.0.9:1"}}};
  }
  TemporaryFolder run_;
};

TEST_F(RunControlFile, IsReadAsItWasWrittenAndGoesWithItsSecretOnly) {
  EXPECT_FALSE(read_control(run_.path()));
  write_control(run_.path(), control());
  EXPECT_EQ(read_control(run_.path()), control());
  remove_control(run_.path(), "another");
  EXPECT_TRUE(read_control(run_.path()));
  remove_control(run_.path(), "5ecret");
  EXPECT_FALSE(read_control(run_.path()));
  remove_control(run_.path(), "5ecret");
}

TEST_F(RunControlFile, OnlyTheOwnerMayReadIt) {
  umask(0);
  write_control(run_.path(), control());
  struct stat info {};
  ASSERT_EQ(stat(control_path(run_.path()).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  if (geteuid() != 0) {
    ASSERT_EQ(chmod(control_path(run_.path()).c_str(), 0), 0);
    EXPECT_ERROR(read_control(run_.path()), ErrorKind::io, "only that user may query, stop or follow this job");
    return;
  }
  ASSERT_EQ(chmod(run_.path().c_str(), 0755), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(3);
    try {
      read_control(run_.path());
      _exit(2);
    } catch (const Error& e) {
      const std::string text = e.what();
      const bool said = text.find("control.json belongs to root: only that user may query") != text.npos;
      _exit(said ? 0 : 1);
    }
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: another message, 2: it was read";
}

TEST_F(RunControlFile, InvalidFilesAreNamed) {
  write_text(control_path(run_.path()), "{}");
  EXPECT_ERROR(read_control(run_.path()), ErrorKind::data, "control.json: \"secret\" is missing");
  write_text(control_path(run_.path()),
             R"({"secret": "x", "job": {"host": "h", "boot_id": "", "pid": 1, "addresses": [2]}})");
  EXPECT_ERROR(read_control(run_.path()), ErrorKind::data, "an address is not a string");
}

TEST_F(RunControlFile, ADeadProcessIsRecognizedOnlyOnItsHost) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  ControlPlace place = ControlPlace::here({});
  EXPECT_FALSE(place.is_gone());
  place.pid = child;
  EXPECT_TRUE(place.is_gone());
  ControlPlace rebooted = ControlPlace::here({});
  rebooted.boot_id = "an earlier start";
  EXPECT_TRUE(rebooted.is_gone()) << "this process' number means another one then";
  place.host = "another";
  EXPECT_FALSE(place.is_gone()) << "nobody can tell from here";
}

TEST_F(RunControlFile, ALoopbackAddressCountsOnItsHostOnly) {
  ControlPlace place = control().job;
  EXPECT_EQ(place.usable(), (std::vector<std::string>{"127.0.0.1:4000", "10.0.0.1:4000"}));
  place.host = "another";
  EXPECT_EQ(place.usable(), (std::vector<std::string>{"10.0.0.1:4000"}));
}

TEST_F(RunControlFile, APlaceFitsAVariable) {
  const ControlPlace place = control().job;
  EXPECT_EQ(place_from_word(to_word(place)), place);
  for (const char* word : {"", "h1", "h1,boot", "h1,boot,7", "h1,boot,x,10.0.0.1:2", "h1,boot,7,"})
    EXPECT_FALSE(place_from_word(word)) << word;
}

}  // namespace
}  // namespace trireme
