set(ENV{OMP_WAIT_POLICY} passive)
