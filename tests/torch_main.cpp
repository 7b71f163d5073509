// The main of tests that link LibTorch.
#include <catch2/catch_session.hpp>

#include "support/process_start.h"

int main(int argc, char** argv) { rondo::end_process(Catch::Session().run(argc, argv)); }
