#include "cluster/sbatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

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
      "#!/bin/bash\n"
      "#SBATCH --job-name=trireme\n#SBATCH --nodes=3\n#SBATCH --ntasks-per-node=2\n"
      "#SBATCH --output=slurm-%j.out\n#SBATCH --open-mode=append\n#SBATCH --signal=USR1@180\n#SBATCH --requeue\n\n"
      "srun --mpi=pmix --label --kill-on-bad-exit=1 --cpu-bind=none /opt/trireme train 'my run.yaml'\n"
      "code=$?\n"
      "# 75: all ranks stopped after the same step with a snapshot; the next run, which Slurm begins two minutes "
      "later, goes on from it.\n"
      "# Not so after `trireme stop`.\n"
      "# Slurm ends this script when it has taken the job back: a code that came before would be the job's end.\n"
      "if [ \"$code\" = 75 ]; then scontrol requeue \"$SLURM_JOB_ID\" && sleep 60; fi\n"
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
  job.gpus_per_node = 8;
  job.time = "20";
  job.memory = "0";
  job.exclusive = true;
  job.requeue = false;
  job.cpu_bind = "mask_cpu:ffffff000000,ffffff";
  job.container = "nvcr.io#nvidia/pytorch:23.02-py3";
  job.container_mounts = "/shared:/shared";
  job.variables = {"NCCL_DEBUG=INFO", "TEXT=two words"};
  const std::string text = batch_script(job);
  for (const char* part : {"--partition=hpc\n", "--cpus-per-task=12\n", "--gpus-per-node=8\n", "--time=20\n",
                           "--mem=0\n", "#SBATCH --exclusive\n", "#SBATCH --no-requeue\n", "export NCCL_DEBUG=INFO\n",
                           "export TEXT='two words'\n", "--cpu-bind=mask_cpu:ffffff000000,ffffff --cpus-per-task=12",
                           "'--container-image=nvcr.io#nvidia/pytorch:23.02-py3' --container-mounts=/shared:/shared"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_EQ(text.find("scontrol requeue"), std::string::npos);
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

TEST(BatchScript, RefusesATimeAtWhichTheWarningComesAtOnce) {
  BatchJob job = job_of();
  for (const char* time : {"2", "0:03:00", "4"}) {
    job.time = time;
    EXPECT_THAT(reason(job), HasSubstr("the job would be queued again and again and train nothing")) << time;
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
  EXPECT_THAT(with([](BatchJob& j) { j.command.clear(); }), HasSubstr("nothing to run"));
  EXPECT_THAT(with([](BatchJob& j) { j.lines = {"comment=x"}; }),
              HasSubstr("--sbatch \"comment=x\": expected an option"));
  EXPECT_THAT(with([](BatchJob& j) { j.name = "a\n#SBATCH --x"; }), HasSubstr("a line break"));
  EXPECT_THAT(with([](BatchJob& j) { j.variables = {"1A=2"}; }), HasSubstr("expected NAME=VALUE"));
  EXPECT_THAT(with([](BatchJob& j) {
                j.starter = "mpirun";
                j.container = "x";
              }),
              HasSubstr("are of srun's"));
}

}  // namespace
}  // namespace trireme
