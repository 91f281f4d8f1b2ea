// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

// Leaves without static destructors: those of the embedded database run while its own threads still do, and crash now and then.
// Leak checks need the ordinary way out.
int main(int argc, char** argv) {
    const int failed = doctest::Context(argc, argv).run();
#if !defined(__SANITIZE_ADDRESS__)
    std::fflush(nullptr);
    std::quick_exit(failed);
#else
    return failed;
#endif
}
