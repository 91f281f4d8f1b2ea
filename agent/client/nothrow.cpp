// SPDX-License-Identifier: Apache-2.0
//
// What  operator new and delete of a library that has no libstdc++. Hidden, so the program's own are not replaced.

#include <stdlib.h>

#include <new>

namespace std {
const nothrow_t nothrow{};
}

void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return ::malloc(bytes); }
void operator delete(void* p) noexcept { ::free(p); }
void operator delete(void* p, size_t) noexcept { ::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { ::free(p); }
