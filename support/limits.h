// Limits of the machine that would end a process in an odd way, where it can say what is wrong.
#pragma once

namespace rondo {

// Once, at the start of a program: a write beyond the file-size limit fails (EFBIG) instead of killing the
// process, and the number of open files is limited by the hard limit, not by the soft one.
void prepare_limits();

// Throws Error(resources) naming the limit and both numbers where fewer than `needed` files may be open.
void require_descriptors(int needed);

}  // namespace rondo
