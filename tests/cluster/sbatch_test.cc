#include "cluster/sbatch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "cluster/subprocess.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::HasSubstr;

BatchJob job_of() {
  BatchJob job;
  job.nodes = 3;
  job.tasks_per_node = 2;
  job.program = "/opt/trireme";
  job.command = {"train", "my run.yaml"};
  return job;
}

std::string reason(const BatchJob& job) {
  try {
    batch_script(job);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.what();
  }
  return "no error";
}

TEST(BatchScript, SrunStepsAreWarnedAndTheScriptQueuesAgain) {
  EXPECT_EQ(
      batch_script(job_of()),
      "#!/bin/bash\n#SBATCH --job-name=trireme\n#SBATCH --nodes=3\n#SBATCH --ntasks-per-node=2\n#SBATCH "
      "--output=slurm-%j.out\n#SBATCH --open-mode=append\n#SBATCH --signal=USR1@180\n#SBATCH --requeue\n\nsrun "
      "--mpi=pmix --label --kill-on-bad-exit=1 --cpu-bind=none /opt/trireme train 'my run.yaml'\ncode=$?\n# 75: all "
      "ranks stopped after the same step with a snapshot; Slurm starts the job again two minutes later, and it "
      "resumes.\n# Except after `trireme stop`.\n# Slurm ends this script after it has requeued the job: exiting "
      "before that would end the job.\nif [ \"$code\" = 75 ]; then scontrol requeue \"$SLURM_JOB_ID\" && sleep 60; fi\n"
      "exit \"$code\"\n");
}

TEST(BatchScript, DirectivesAreQuotedForSbatch) {
  BatchJob job = job_of();
  job.name = "my job #1";
  job.output = "it's \"log\" %j.txt";
  job.lines = {"--comment='a b'", "-C big", "--licenses=a#b", "--wrap"};
  const std::string text = batch_script(job);
  for (const char* line : {"#SBATCH --job-name=\"my job #1\"\n", "#SBATCH --output=\"it's \\\"log\\\" %j.txt\"\n",
                           "#SBATCH --comment='a b'\n", "#SBATCH -C big\n", "#SBATCH --licenses=\"a#b\"\n",
                           "#SBATCH --wrap\n", "#SBATCH --nodes=3\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(BatchScript, AJobThatTriremeStopEndedIsNotQueuedAgain) {
  BatchJob job = job_of();
  job.run_folder = "my run";
  EXPECT_THAT(batch_script(job),
              HasSubstr("if [ \"$code\" = 75 ] && ! grep -qs '\"requeue\":false' 'my run/status.json'; "
                        "then scontrol requeue"));
}

TEST(BatchScript, MpirunHandsTheBatchShellsSignalToLaunch) {
  BatchJob job = job_of();
  job.starter = "mpirun";
  job.warning_seconds = 60;
  const std::string text = batch_script(job);
  EXPECT_THAT(text, HasSubstr("#SBATCH --signal=B:USR1@60\n"));
  EXPECT_THAT(text, HasSubstr("\nexec /opt/trireme launch --starter auto --requeue -- train 'my run.yaml'\n"));
}

TEST(BatchScript, CarriesEveryRequest) {
  BatchJob job = job_of();
  job.partition = "hpc";
  job.cpus_per_task = 12;
  job.gpus_per_node = "8";
  job.time = "20";
  job.memory = "0";
  job.exclusive = true;
  job.requeue = false;
  job.cpu_bind = "mask_cpu:ffffff000000,ffffff";
  job.container = "nvcr.io#nvidia/pytorch:23.02-py3";
  job.container_mounts = "/shared:/shared";
  job.folder = "/shared/me";
  job.variables = {"NCCL_DEBUG=INFO", "TEXT=two words"};
  const std::string text = batch_script(job);
  for (const char* part : {"--partition=hpc\n", "--cpus-per-task=12\n", "--gpus-per-node=8\n", "--time=20\n",
                           "--mem=0\n", "#SBATCH --exclusive\n", "#SBATCH --no-requeue\n", "export NCCL_DEBUG=INFO\n",
                           "export TEXT='two words'\n", "--cpu-bind=mask_cpu:ffffff000000,ffffff --cpus-per-task=12",
                           "'--container-image=nvcr.io#nvidia/pytorch:23.02-py3' --container-mounts=/shared:/shared "
                           "--container-workdir=/shared/me trireme train",
                           "\nexport OMPI_MCA_btl_vader_single_copy_mechanism=none PMIX_MCA_gds=hash "
                           "PMIX_MCA_psec=none\nsrun "}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_EQ(text.find("scontrol requeue"), std::string::npos);
}

TEST(BatchScript, AsksForGpusAndLetsLaunchCheckThem) {
  BatchJob job = job_of();
  job.tasks_per_node = 8;
  job.gres = "gpu:a100:8,nvme:1";
  job.preflight = true;
  EXPECT_EQ(gpus_of(job), 8);
  const std::string text = batch_script(job);
  EXPECT_THAT(text, HasSubstr("#SBATCH --gres=gpu:a100:8,nvme:1\n"));
  EXPECT_THAT(text, HasSubstr("launch --slurm --starter srun --preflight-only --gpus-per-node 8 --ppn 8 -- train"));
  job.gres.clear();
  job.gpus_per_node = "a100:4";
  job.starter = "mpirun";
  EXPECT_THAT(batch_script(job), testing::AllOf(HasSubstr("#SBATCH --gpus-per-node=a100:4\n"),
                                                HasSubstr(" launch --starter auto --gpus-per-node 4 --ppn 8 ")));
  job.gres = "gpu:2";
  EXPECT_ERROR(batch_script(job), ErrorKind::usage,
               "--gpus-per-node a100:4 and --gres gpu:2 both request GPUs; remove one");
  job.gres = "nvme:1";
  EXPECT_EQ(gpus_of(job), 4);
  job.gpus_per_node = "all";
  EXPECT_ERROR(batch_script(job), ErrorKind::usage,
               "--gpus-per-node \"all\": expected a number of at least 1, or TYPE:NUMBER such as a100:8");
  job.gpus_per_node.clear();
  job.gres = "gpu 8";
  EXPECT_ERROR(batch_script(job), ErrorKind::usage,
               "--gres \"gpu 8\": expected NAME[:TYPE]:NUMBER, such as gpu:8 or gpu:a100:8");
  for (const char* wrong : {"gpu:0", "gpu:-1", "gpu:8K", "gpu:1.5", "gpu:99999999999", "gres:gpu:8", "gres/gpu:8"}) {
    job.gres = std::string("nvme:1,") + wrong;
    EXPECT_ERROR(batch_script(job), ErrorKind::usage,
                 fmt::format("--gres \"{}\": expected gpu[:TYPE][:NUMBER] with a number of at least 1", wrong).c_str());
  }
  for (const auto& [right, count] :
       {std::pair{"gpu", 1}, {"gpu:a100", 1}, {"gpu:a100:4,gpu:h100:2", 6}, {"shard:4", 0}}) {
    job.gres = right;
    EXPECT_EQ(gpus_of(job), count) << right;
  }
}

TEST(BatchScript, AContainerSeesTheCurrentFolderUnlessOtherMountsAreGiven) {
  BatchJob job = job_of();
  job.folder = "/home/a user";
  EXPECT_THAT(batch_script(job), testing::Not(HasSubstr("container")));
  EXPECT_THAT(batch_script(job), testing::Not(HasSubstr("PMIX_MCA")));
  job.container = "/shared/trireme.sqsh";
  EXPECT_THAT(batch_script(job), HasSubstr("--container-image=/shared/trireme.sqsh '--container-mounts=/home/a "
                                           "user:/home/a user' '--container-workdir=/home/a user' trireme train"));
  job.folder = "/home/a:b";
  EXPECT_THAT(reason(job),
              HasSubstr("the current folder /home/a:b has ':' or ',', which separate mounts of a container; "
                        "start in another one, or name the mounts by --container-mounts"));
  job.container_mounts = "/home:/home";
  EXPECT_THAT(batch_script(job), HasSubstr("--container-mounts=/home:/home --container-workdir=/home/a:b"));
  job.container = "";
  job.container_mounts = "/a:/a";
  EXPECT_THAT(reason(job), HasSubstr("--container-mounts needs --container; add the image"));
}

TEST(BatchScript, LooksAtTheNodesBeforeTheRanksStart) {
  BatchJob job = job_of();
  job.health = "nhc.conf";
  EXPECT_THAT(batch_script(job),
              HasSubstr("\n/opt/trireme launch --slurm --starter srun --preflight-only --health nhc.conf -- "
                        "train 'my run.yaml' || exit\nsrun "));
  job.starter = "mpirun";
  EXPECT_THAT(batch_script(job), HasSubstr("launch --starter auto --requeue --health nhc.conf -- train"));
}

TEST(BatchScript, CarriesWhatSbatchTakes) {
  BatchJob job = job_of();
  job.nodelist = "n[1-3]";
  job.exclude = "n9";
  job.qos = "high";
  job.dependency = "afterok:12";
  job.mail_type = "END";
  job.mail_user = "a@b.c";
  job.lines = {"--comment=x y"};
  for (const char* part : {"--nodelist=n[1-3]\n", "--exclude=n9\n", "--qos=high\n", "--dependency=afterok:12\n",
                           "--mail-type=END\n", "--mail-user=a@b.c\n", "#SBATCH --comment=\"x y\"\n"}) {
    EXPECT_THAT(batch_script(job), HasSubstr(part));
  }
}

TEST(BatchScript, ReadsSlurmsTimes) {
  EXPECT_EQ(slurm_seconds("2"), 120);
  EXPECT_EQ(slurm_seconds("2:30"), 150);
  EXPECT_EQ(slurm_seconds("1:02:03"), 3723);
  EXPECT_EQ(slurm_seconds("1-2"), 26 * 3600);
  EXPECT_EQ(slurm_seconds("1-00:01"), 86460);
}

TEST(BatchScript, RefusesATimeNotLongerThanTheWarning) {
  BatchJob job = job_of();
  for (const char* time : {"2", "0:03:00", "4"}) {
    job.time = time;
    EXPECT_THAT(reason(job), HasSubstr("the job would be requeued again and again without training")) << time;
  }
  for (const char* time : {"0", "4:01", "5"}) {
    job.time = time;
    EXPECT_EQ(reason(job), "no error") << time;
  }
}

TEST(BatchScript, RefusesWhatSlurmWould) {
  const auto with = [](auto change) {
    BatchJob job = job_of();
    change(job);
    return reason(job);
  };
  EXPECT_THAT(with([](BatchJob& j) { j.time = "soon"; }), HasSubstr("--time \"soon\": expected minutes"));
  EXPECT_EQ(with([](BatchJob& j) { j.time = "2-12:30:00"; }), "no error");
  EXPECT_THAT(with([](BatchJob& j) { j.memory = "lots"; }), HasSubstr("--mem \"lots\""));
  EXPECT_THAT(with([](BatchJob& j) { j.cpu_bind = "mask_cpu:xyz"; }), HasSubstr("--cpu-bind"));
  EXPECT_THAT(with([](BatchJob& j) { j.starter = "pdsh"; }), HasSubstr("expected srun or mpirun"));
  EXPECT_THAT(with([](BatchJob& j) { j.command.clear(); }), HasSubstr("the command is missing"));
  EXPECT_THAT(with([](BatchJob& j) { j.lines = {"comment=x"}; }),
              HasSubstr("--sbatch \"comment=x\": expected an option"));
  EXPECT_THAT(with([](BatchJob& j) { j.name = "a\n#SBATCH --x"; }), HasSubstr("a line break"));
  EXPECT_THAT(with([](BatchJob& j) { j.variables = {"1A=2"}; }), HasSubstr("expected NAME=VALUE"));
  EXPECT_THAT(with([](BatchJob& j) {
                j.starter = "mpirun";
                j.container = "x";
              }),
              HasSubstr("need srun"));
}

/// Runs a script with srun, scontrol, sinfo and sleep that only tell what they were asked for.
class RunScript : public testing::Test {
 protected:
  RunScript() {
    std::filesystem::create_directories(folder_ / "bin");
    stub("srun", "echo srun >>\"$CALLS\"; exit $CODE");
    stub("scontrol", "echo scontrol $* >>\"$CALLS\"");
    stub("sinfo", "echo 'trireme: Slurm leaves out h3 (down): Not responding'");
    stub("sleep", "echo sleep $* >>\"$CALLS\"");
    job_ = job_of();
    job_.run_folder = folder_ / "my run";
  }
  void stub(const std::string& name, const std::string& body) {
    write_text(folder_ / ("bin/" + name), "#!/bin/sh\n" + body + "\n");
    std::filesystem::permissions(folder_ / ("bin/" + name), std::filesystem::perms::owner_all);
  }
  /// What was called, and the exit code behind it.
  std::string run(int code, int restarts) {
    write_text(folder_ / "script", batch_script(job_));
    std::filesystem::remove(folder_ / "calls");
    const ProcessResult result = run_process({.arguments = {"bash", folder_ / "script"},
                                              .input = "",
                                              .variables = {{"PATH", folder_ / "bin" + ":/usr/bin:/bin"},
                                                            {"CALLS", folder_ / "calls"},
                                                            {"CODE", std::to_string(code)},
                                                            {"SLURM_JOB_ID", "12"},
                                                            {"SLURM_JOB_NODELIST", "h[2-3]"},
                                                            {"SLURM_RESTART_COUNT", std::to_string(restarts)}},
                                              .user = ""});
    said_ = result.err;
    return read_text_if_there(folder_ / "calls") + std::to_string(result.exit_code);
  }
  std::string notes() { return read_text_if_there(job_.run_folder + "/slurm-12.restarts"); }
  TemporaryFolder folder_;
  BatchJob job_;
  std::string said_;
};

TEST_F(RunScript, AJobThatLostARankIsRequeuedUntilThatHappensTooOften) {
  std::filesystem::create_directories(job_.run_folder);
  job_.max_restarts = 2;
  EXPECT_EQ(run(0, 0), "srun\n0");
  EXPECT_EQ(run(76, 0), "srun\nsleep 1\nscontrol requeue 12\nsleep 60\n76");
  EXPECT_THAT(said_, HasSubstr("trireme: code 76: requeueing job 12 in 1 s"));
  EXPECT_EQ(run(137, 1), "srun\nsleep 2\nscontrol requeue 12\nsleep 60\n137");
  EXPECT_THAT(said_, HasSubstr("trireme: restart 1 of 2 after a lost rank or node, on h[2-3]"));
  EXPECT_THAT(said_, HasSubstr("Slurm leaves out h3 (down)"));
  EXPECT_EQ(notes(), "76\n137\n");
  EXPECT_EQ(run(76, 2), "srun\n76") << "twice is enough";
  EXPECT_EQ(run(0, 2), "srun\n0");
}

TEST_F(RunScript, StopsBeforeTheTimeLimitAreNotCounted) {
  std::filesystem::create_directories(job_.run_folder);
  job_.max_restarts = 1;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(75, i), "srun\nscontrol requeue 12\nsleep 60\n75");
  EXPECT_EQ(run(76, 3), "srun\nsleep 1\nscontrol requeue 12\nsleep 60\n76");
  EXPECT_EQ(run(75, 4), "srun\nscontrol requeue 12\nsleep 60\n75");
  EXPECT_EQ(run(76, 5), "srun\n76");
}

TEST_F(RunScript, WhatSlurmQueuedAgainByItselfCountsAsALoss) {
  job_.max_restarts = 1;
  EXPECT_EQ(run(0, 1), "srun\n0");
  EXPECT_EQ(notes(), "node\n") << "the folder was not there: the node was lost before the run began";
  EXPECT_EQ(run(0, 2), "76");
  EXPECT_THAT(said_,
              HasSubstr("job 12 lost ranks or nodes 2 times, more than the 1 of --max-restarts; nothing is started"));
}

TEST_F(RunScript, OtherFaultsAndJobsWithoutSnapshotsAreNotQueuedAgain) {
  std::filesystem::create_directories(job_.run_folder);
  for (const int code : {1, 2, 3}) EXPECT_EQ(run(code, 0), "srun\n" + std::to_string(code));
  job_.max_restarts = 0;
  EXPECT_EQ(run(76, 0), "srun\n76");
  job_.max_restarts = 3;
  job_.requeue = false;
  EXPECT_EQ(run(76, 0), "srun\n76");
  job_.requeue = true;
  job_.run_folder.clear();
  EXPECT_EQ(run(76, 0), "srun\n76");
}

TEST(BatchScript, LaunchGetsTheLimitOfLostRanks) {
  BatchJob job = job_of();
  job.run_folder = "run";
  job.starter = "mpirun";
  EXPECT_THAT(batch_script(job), HasSubstr("launch --starter auto --requeue --max-requeues 3 -- train"));
  EXPECT_THAT(batch_script(job), HasSubstr("restarts=run/slurm-\"$SLURM_JOB_ID\".restarts\n"));
}

}  // namespace
}  // namespace trireme
