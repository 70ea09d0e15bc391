#pragma once
// Signals that end a process for a write that failed. The program ignores them: each write reports its error instead.

namespace trireme {

/// SIGPIPE (the reader is gone) and SIGXFSZ (`ulimit -f`) are ignored. Once, at the start of the program.
void ignore_write_signals();
/// As another program expects them: in a child, before it becomes that program. Usable between fork() and exec().
void restore_write_signals();
/// Standard output has no reader any more: ends as a program that does not ignore SIGPIPE.
[[noreturn]] void end_by_broken_pipe();

}  // namespace trireme
