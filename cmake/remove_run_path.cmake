# cmake -DPROGRAM=... -P: takes the run path out of a program that will be carried to another machine. The loader looks
# there before LD_LIBRARY_PATH, and another machine may have another CUDA at these places.
file(RPATH_REMOVE FILE "${PROGRAM}")
