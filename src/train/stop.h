#pragma once
// Stop requests by signal (docs/design.md, decision 15): TERM, INT and USR1 ask for a stop at the next step boundary.
// Signals within 5 s of the first are the same request, since Slurm sends TERM twice; USR1 never is a second one; any
// other later signal leaves at once with code 75.

namespace trireme::stop {

/// Installs the handlers, and lets a terminal that is closed end no process: writes to it fail. Call at the
/// start of the program, and again after MPI's start-up, which installs some of its own.
void install();
/// True once a stop was asked for on this rank.
bool requested();
/// Every later stop request of this process also writes a byte to this descriptor; -1: to none.
void tell(int descriptor);
/// "SIGTERM", ... of the first request; "" before one.
const char* reason();

}  // namespace trireme::stop
