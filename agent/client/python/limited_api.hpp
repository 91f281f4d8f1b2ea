// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What  Python's limited API 3.10, plus the buffer protocol, which joined the stable ABI with 3.11 in the form it had
//       before: struct and functions are declared here so that one binary serves 3.10 and later.

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#if Py_LIMITED_API < 0x030B0000 && !defined(PyBUF_STRIDES)
extern "C" {
typedef struct {
    void* buf;
    PyObject* obj;
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char* format;
    Py_ssize_t* shape;
    Py_ssize_t* strides;
    Py_ssize_t* suboffsets;
    void* internal;
} Py_buffer;
PyAPI_FUNC(int) PyObject_CheckBuffer(PyObject*);
PyAPI_FUNC(int) PyObject_GetBuffer(PyObject*, Py_buffer*, int);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer*);
}
#define PyBUF_FORMAT 0x0004
#define PyBUF_ND 0x0008
#define PyBUF_STRIDES (0x0010 | PyBUF_ND)
#endif
