// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Sees numbers in a Python object through the buffer protocol: numpy arrays and scalars, array.array, memoryview;
//         torch and jax through their own numpy view; lists through array.array.
// Owns    An Array holds its buffer until release(); broadcast (zero-stride) arrays are copied, since the C ABI reads a
//         zero stride as contiguous.
// Errors  False with a Python exception set.

#include "agent/client/python/limited_api.hpp"

namespace tally::py {

struct Array {
    const char* data = nullptr;
    int dtype = 0;
    int ndim = 0;
    Py_ssize_t shape[3] = {};
    Py_ssize_t strides[3] = {};
    Py_ssize_t itemsize = 0;

    Array() = default;
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    ~Array() { release(); }
    bool open(PyObject* object);
    void release();
    Py_ssize_t count() const;

private:
    bool open_buffer(PyObject* object);
    bool copy_broadcast();
    Py_buffer buffer_{};
    bool held_ = false;
    void* copy_ = nullptr;
};

// The dtype code of a buffer's format and item size; 0 when there is none.
int dtype_of_format(const char* format, Py_ssize_t itemsize);
// "(2, 50000)"
PyObject* shape_text(const Py_ssize_t* shape, int ndim);

}  // namespace tally::py
