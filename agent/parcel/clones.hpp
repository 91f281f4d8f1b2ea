// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    TALLY_CLONES: compile a plain loop for AVX-512, AVX2 and baseline x86-64, chosen when the program loads.
//         Empty where resolvers do not work: sanitizers (they run before the runtime is up), other compilers and
//         machines.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define TALLY_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TALLY_CLONES
#endif
