// SPDX-License-Identifier: Apache-2.0
#include "agent/client/python/array.hpp"

#include <stdlib.h>
#include <string.h>

#include <initializer_list>

#include "agent/client/tallyman.h"

namespace tally::py {

namespace {

// An object with a buffer: itself, its numpy view, or an array.array of its items. New reference.
PyObject* with_buffer(PyObject* object) {
    if (PyObject_CheckBuffer(object)) return Py_NewRef(object);
    if (PyList_Check(object) || PyTuple_Check(object)) {
        PyObject* module = PyImport_ImportModule("array");
        PyObject* out = module == nullptr ? nullptr : PyObject_CallMethod(module, "array", "sO", "d", object);
        Py_XDECREF(module);
        return out;
    }
    PyObject* plain = PyObject_HasAttrString(object, "detach") ? PyObject_CallMethod(object, "detach", nullptr) : Py_NewRef(object);
    if (plain == nullptr) return nullptr;
    for (const char* method : {"numpy", "__array__"}) {
        if (!PyObject_HasAttrString(plain, method)) continue;
        PyObject* out = PyObject_CallMethod(plain, method, nullptr);
        Py_DECREF(plain);
        return out;
    }
    Py_DECREF(plain);
    PyErr_SetString(PyExc_TypeError, "values must be numbers, or an array that has a buffer, numpy() or __array__()");
    return nullptr;
}

}  // namespace

int dtype_of_format(const char* format, Py_ssize_t itemsize) {
    if (format == nullptr) return itemsize == 1 ? TALLY_U8 : 0;
    if (*format == '@' || *format == '=' || *format == '<') ++format;
    if (format[0] == 0 || format[1] != 0) return 0;
    const auto by_width = [itemsize](int one, int two, int four, int eight) {
        return itemsize == 1 ? one : itemsize == 2 ? two : itemsize == 4 ? four : itemsize == 8 ? eight : 0;
    };
    switch (*format) {
        case 'e': return TALLY_F16;
        case 'f': return TALLY_F32;
        case 'd': return TALLY_F64;
        case '?': return TALLY_BOOL;
        case 'b': case 'h': case 'i': case 'l': case 'q': case 'n':
            return by_width(TALLY_I8, TALLY_I16, TALLY_I32, TALLY_I64);
        case 'B': case 'H': case 'I': case 'L': case 'Q': case 'N':
            return by_width(TALLY_U8, TALLY_U16, TALLY_U32, TALLY_U64);
        default: return 0;
    }
}

PyObject* shape_text(const Py_ssize_t* shape, int ndim) {
    PyObject* tuple = PyTuple_New(ndim);
    if (tuple == nullptr) return nullptr;
    for (int i = 0; i < ndim; ++i) PyTuple_SetItem(tuple, i, PyLong_FromSsize_t(shape[i]));
    PyObject* text = PyObject_Str(tuple);
    Py_DECREF(tuple);
    return text;
}

bool Array::open(PyObject* object) {
    PyObject* source = with_buffer(object);
    if (source == nullptr) return false;
    const bool ok = open_buffer(source);
    Py_DECREF(source);  // the buffer keeps it
    return ok && copy_broadcast();
}

bool Array::open_buffer(PyObject* object) {
    if (PyObject_GetBuffer(object, &buffer_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) return false;
    held_ = true;
    if (buffer_.ndim > 3) {
        PyErr_Format(PyExc_ValueError, "an array has at most 3 dimensions here, got %d", buffer_.ndim);
        return false;
    }
    dtype = dtype_of_format(buffer_.format, buffer_.itemsize);
    if (dtype == 0) {
        PyErr_Format(PyExc_TypeError, "element format '%s' is not supported; give a numeric dtype (bfloat16 as its uint16 view)",
                     buffer_.format == nullptr ? "" : buffer_.format);
        return false;
    }
    data = static_cast<const char*>(buffer_.buf);
    ndim = buffer_.ndim;
    itemsize = buffer_.itemsize;
    for (int i = 0; i < ndim; ++i) {
        shape[i] = buffer_.shape[i];
        strides[i] = buffer_.strides[i];
    }
    return true;
}

Py_ssize_t Array::count() const {
    Py_ssize_t n = 1;
    for (int i = 0; i < ndim; ++i) n *= shape[i];
    return n;
}

bool Array::copy_broadcast() {
    bool needed = false;
    for (int i = 0; i < ndim; ++i) needed = needed || (strides[i] == 0 && shape[i] > 1);
    if (!needed) return true;
    copy_ = ::malloc(static_cast<size_t>(count() * itemsize) + 1);
    if (copy_ == nullptr) return PyErr_NoMemory() != nullptr;
    const Py_ssize_t a = ndim > 2 ? shape[ndim - 3] : 1;
    const Py_ssize_t b = ndim > 1 ? shape[ndim - 2] : 1;
    const Py_ssize_t c = shape[ndim - 1];
    char* out = static_cast<char*>(copy_);
    for (Py_ssize_t i = 0; i < a; ++i)
        for (Py_ssize_t j = 0; j < b; ++j)
            for (Py_ssize_t k = 0; k < c; ++k, out += itemsize)
                ::memcpy(out, data + (ndim > 2 ? i * strides[ndim - 3] : 0) + (ndim > 1 ? j * strides[ndim - 2] : 0) + k * strides[ndim - 1],
                         static_cast<size_t>(itemsize));
    Py_ssize_t stride = itemsize;
    for (int i = ndim - 1; i >= 0; --i) {
        strides[i] = stride;
        stride *= shape[i];
    }
    data = static_cast<const char*>(copy_);
    return true;
}

void Array::release() {
    if (held_) PyBuffer_Release(&buffer_);
    held_ = false;
    ::free(copy_);
    copy_ = nullptr;
}

}  // namespace tally::py
