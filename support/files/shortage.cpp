#include "support/files/shortage.h"

#include <cerrno>

namespace rondo {

bool is_shortage(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EIO:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return true;
    default:
      return false;
  }
}

}  // namespace rondo
