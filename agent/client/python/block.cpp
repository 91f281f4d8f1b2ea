// SPDX-License-Identifier: Apache-2.0
//
// What  _tallyman.Block: arrays of a block into the ring, converted on the way.

#include <stdlib.h>
#include <string.h>

#include "agent/client/python/array.hpp"
#include "agent/client/python/module.hpp"

namespace tally::py {

namespace {

BlockObject* as_block(PyObject* o) { return reinterpret_cast<BlockObject*>(o); }
tally_run* run_of(BlockObject* b) { return live(b->run); }

// The row list of index= or mask=, as the C ABI wants it. data == null and listed: an empty list.
struct Rows {
    uint32_t* data = nullptr;
    Py_ssize_t n = 0;
    bool listed = false;
    ~Rows() { ::free(data); }
    bool reserve(Py_ssize_t count) {
        listed = true;
        data = static_cast<uint32_t*>(::malloc(static_cast<size_t>(count) * 4 + 4));
        return data != nullptr || PyErr_NoMemory() != nullptr;
    }
};

int64_t integer_at(const Array& a, Py_ssize_t i) {
    uint64_t bits = 0;
    ::memcpy(&bits, a.data + i * a.strides[0], static_cast<size_t>(a.itemsize));
    if (a.dtype < TALLY_I8 || a.dtype > TALLY_I64) return static_cast<int64_t>(bits);
    const int shift = 64 - 8 * static_cast<int>(a.itemsize);
    return static_cast<int64_t>(bits << shift) >> shift;
}

bool read_index(PyObject* index, Py_ssize_t envs, Rows* rows) {
    Array a;
    PyObject* list = nullptr;
    if (PyList_Check(index) || PyTuple_Check(index)) {  // integers, not the doubles that values become
        PyObject* module = PyImport_ImportModule("array");
        list = module == nullptr ? nullptr : PyObject_CallMethod(module, "array", "sO", "q", index);
        Py_XDECREF(module);
        if (list == nullptr) return false;
    }
    const bool opened = a.open(list != nullptr ? list : index);
    Py_XDECREF(list);
    if (!opened) return false;
    if (a.ndim != 1 || a.dtype < TALLY_I8 || a.dtype > TALLY_U64)
        return PyErr_Format(PyExc_ValueError, "index= must be a one-dimensional array of integers") != nullptr;
    if (!rows->reserve(a.shape[0])) return false;
    rows->n = a.shape[0];
    for (Py_ssize_t i = 0; i < rows->n; ++i) {
        const int64_t v = integer_at(a, i);
        if (v < 0 || v >= envs)
            return PyErr_Format(PyExc_ValueError, "index= holds %lld; environments of this block are 0 to %zd",
                                static_cast<long long>(v), envs - 1) != nullptr;
        rows->data[i] = static_cast<uint32_t>(v);
    }
    return true;
}

bool read_mask(PyObject* mask, Py_ssize_t envs, Rows* rows) {
    Array a;
    if (!a.open(mask)) return false;
    if (a.ndim != 1 || a.shape[0] != envs || a.itemsize != 1)
        return PyErr_Format(PyExc_ValueError, "mask= must be %zd booleans", envs) != nullptr;
    if (!rows->reserve(envs)) return false;
    for (Py_ssize_t i = 0; i < envs; ++i)
        if (a.data[i * a.strides[0]] != 0) rows->data[rows->n++] = static_cast<uint32_t>(i);
    return true;
}

bool wrong_shape(const char* expected, Py_ssize_t m, Py_ssize_t n, const Array& got, PyObject* metric) {
    PyObject* text = shape_text(got.shape, got.ndim);
    if (text == nullptr) return false;
    if (metric != nullptr)
        PyErr_Format(PyExc_ValueError, "metric '%U': expected shape (%zd,) or (T, %zd), got %U", metric, n, n, text);
    else
        PyErr_Format(PyExc_ValueError, "expected shape %s = (%zd, %zd), got %U", expected, m, n, text);
    Py_DECREF(text);
    return false;
}

// Everything one call borrows until the C library has copied it.
struct Call {
    tally_frame frame = TALLY_FRAME_INIT;
    tally_values* values = nullptr;
    Array* arrays = nullptr;
    Py_ssize_t array_count = 0;
    Rows rows;
    Call() = default;
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() {
        for (Py_ssize_t i = 0; i < array_count; ++i) arrays[i].release();
        ::free(arrays);
        ::free(values);
    }
    bool reserve(Py_ssize_t metrics, Py_ssize_t count) {
        values = static_cast<tally_values*>(::calloc(static_cast<size_t>(metrics), sizeof(tally_values)));
        arrays = static_cast<Array*>(::calloc(static_cast<size_t>(count), sizeof(Array)));  // all-zero is an empty Array
        array_count = arrays == nullptr ? 0 : count;
        return (values != nullptr && arrays != nullptr) || PyErr_NoMemory() != nullptr;
    }
};

bool take_matrix(BlockObject* b, PyObject* object, Py_ssize_t n, Call* call) {
    if (!call->reserve(b->count, 1) || !call->arrays[0].open(object)) return false;
    const Array& a = call->arrays[0];
    const int first = a.ndim - 2;  // dimension of the metrics
    if (a.ndim < 2 || a.shape[first] != b->count || a.shape[first + 1] != n)
        return wrong_shape(a.ndim == 3 ? "(T, M, N), (M, N)" : "(M, N)", b->count, n, a, nullptr);
    call->frame.steps = a.ndim == 3 ? static_cast<uint32_t>(a.shape[0]) : 1;
    for (Py_ssize_t m = 0; m < b->count; ++m)
        call->values[m] = {a.data + m * a.strides[first], a.dtype, n > 1 ? a.strides[first + 1] : a.itemsize, a.ndim == 3 ? a.strides[0] : 0};
    return a.ndim < 3 || a.shape[0] > 0 || PyErr_Format(PyExc_ValueError, "a frame needs at least one step") != nullptr;
}

bool take_metric(BlockObject* b, PyObject* name, PyObject* value, Py_ssize_t n, Py_ssize_t i, Call* call) {
    PyObject* row = PyDict_GetItemWithError(b->rows, name);
    if (row == nullptr)
        return PyErr_Occurred() == nullptr && PyErr_Format(PyExc_ValueError, "metric '%S' is not one of this block", name) != nullptr;
    Array& a = call->arrays[i];
    if (!a.open(value)) return false;
    if (a.ndim < 1 || a.ndim > 2 || a.shape[a.ndim - 1] != n) return wrong_shape("(N,)", b->count, n, a, name);
    const auto steps = static_cast<uint32_t>(a.ndim == 2 ? a.shape[0] : 1);
    if (steps == 0 || (i != 0 && call->frame.steps != steps))
        return PyErr_Format(PyExc_ValueError, "metric '%U': all metrics of a call need the same number of steps", name) != nullptr;
    call->frame.steps = steps;
    call->values[PyLong_AsSsize_t(row)] = {a.data, a.dtype, n > 1 ? a.strides[a.ndim - 1] : a.itemsize, a.ndim == 2 ? a.strides[0] : 0};
    return true;
}

bool take_dict(BlockObject* b, PyObject* dict, Py_ssize_t n, Call* call) {
    const Py_ssize_t size = PyDict_Size(dict);
    if (size != b->count)
        return PyErr_Format(PyExc_ValueError, "expected values of all %zd metrics of the block, got %zd", b->count, size) != nullptr;
    if (!call->reserve(b->count, size)) return false;
    Py_ssize_t position = 0;
    PyObject* name = nullptr;
    PyObject* value = nullptr;
    for (Py_ssize_t i = 0; i < size && PyDict_Next(dict, &position, &name, &value); ++i)
        if (!take_metric(b, name, value, n, i, call)) return false;
    return true;
}

PyObject* block_log(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
    static const char* const known[] = {"values", "step", "step0", "stride", "index", "mask", "rl_step", "time"};
    BlockObject* b = as_block(self);
    PyObject* given[8] = {};
    tally_run* run = run_of(b);
    if (run == nullptr || !read_arguments(args, n, names, known, 8, 1, given)) return nullptr;
    const Inside call_under_way(b->run);
    PyObject* step = given[1] != nullptr ? given[1] : given[2];
    if (given[0] == nullptr || step == nullptr) {
        PyErr_SetString(PyExc_TypeError, "log(values, step=n) or log(values, step0=n, stride=1)");
        return nullptr;
    }
    Call call;
    if (!read_i64(step, "step", &call.frame.step) || !read_at(given[7], given[6], &call.frame.at)) return nullptr;
    if (given[3] != nullptr && !read_i64(given[3], "stride", &call.frame.step_stride)) return nullptr;
    if (given[3] != nullptr && call.frame.step_stride < 1) return PyErr_Format(PyExc_ValueError, "stride= must be at least 1");
    const bool has_index = given[4] != nullptr && given[4] != Py_None;
    const bool has_mask = given[5] != nullptr && given[5] != Py_None;
    if (has_index && has_mask) return PyErr_Format(PyExc_ValueError, "give index= or mask=, not both");
    if (has_index && !read_index(given[4], b->envs, &call.rows)) return nullptr;
    if (has_mask && !read_mask(given[5], b->envs, &call.rows)) return nullptr;
    const Py_ssize_t width = call.rows.listed ? call.rows.n : b->envs;
    const bool ok = PyDict_Check(given[0]) ? take_dict(b, given[0], width, &call) : take_matrix(b, given[0], width, &call);
    if (!ok) return nullptr;
    call.frame.values = call.values;
    if (call.rows.listed) {
        call.frame.row_list = call.rows.data;
        call.frame.rows = static_cast<uint32_t>(call.rows.n);
    }
    int rc = 0;
    {
        const Unlocked others;  // a full ring waits here, and a large frame takes its time
        rc = tally_block_log(run, b->id, &call.frame);
    }
    return outcome(b->run, rc);
}

// (step, time, rl_step, widths: bytes) -> one memoryview of bytes per metric, or None when there is no room
PyObject* block_claim(PyObject* self, PyObject* args) {
    BlockObject* b = as_block(self);
    long long step = 0;
    PyObject* time = nullptr;
    PyObject* rl_step = nullptr;
    const char* widths = nullptr;
    Py_ssize_t count = 0;
    tally_run* run = run_of(b);
    if (run == nullptr || PyArg_ParseTuple(args, "LOOy#", &step, &time, &rl_step, &widths, &count) == 0) return nullptr;
    if (count != b->count) return PyErr_Format(PyExc_ValueError, "one width per metric");
    const Inside call_under_way(b->run);
    tally_frame frame = TALLY_FRAME_INIT;
    frame.step = step;
    if (!read_at(time, rl_step, &frame.at)) return nullptr;
    auto** places = static_cast<void**>(::calloc(static_cast<size_t>(b->count), sizeof(void*)));
    if (places == nullptr) return PyErr_NoMemory();
    const int rc = tally_block_claim(run, b->id, &frame, places);
    PyObject* out = nullptr;
    if (rc < 0) {
        out = outcome(b->run, rc);
    } else {
        out = PyList_New(b->count);
        for (Py_ssize_t m = 0; out != nullptr && m < b->count; ++m)
            PyList_SetItem(out, m, PyMemoryView_FromMemory(static_cast<char*>(places[m]), b->envs * widths[m], 0x200));
    }
    ::free(places);
    return out;
}

PyObject* block_commit(PyObject* self, PyObject*) {
    tally_run* run = run_of(as_block(self));
    return run == nullptr ? nullptr : outcome(as_block(self)->run, tally_block_commit(run, as_block(self)->id));
}

PyObject* block_abort(PyObject* self, PyObject*) {
    tally_run* run = run_of(as_block(self));
    return run == nullptr ? nullptr : outcome(as_block(self)->run, tally_block_abort(run, as_block(self)->id));
}

bool open_block(BlockObject* b, const char* dtypes, unsigned env_first, int* rc) {
    tally_run* run = run_of(b);
    const char** names = static_cast<const char**>(::calloc(static_cast<size_t>(b->count) + 1, sizeof(char*)));
    if (run == nullptr || names == nullptr) return ::free(names), false;
    const Inside call_under_way(b->run);
    bool ok = true;
    for (Py_ssize_t m = 0; m < b->count && ok; ++m) {
        PyObject* name = PyList_GetItem(b->metrics, m);
        PyObject* row = PyLong_FromSsize_t(m);
        names[m] = PyUnicode_AsUTF8AndSize(name, nullptr);
        ok = names[m] != nullptr && row != nullptr && PyDict_SetItem(b->rows, name, row) == 0;
        Py_XDECREF(row);
    }
    tally_block_options o = TALLY_BLOCK_OPTIONS_INIT;
    o.metrics = static_cast<uint32_t>(b->count);
    o.names = names;
    o.dtypes = reinterpret_cast<const uint8_t*>(dtypes);
    o.env_first = env_first;
    o.env_count = static_cast<uint32_t>(b->envs);
    if (ok) {
        const Unlocked others;
        *rc = tally_block_open(run, &o);
    }
    ::free(names);
    return ok;
}

// (run, metrics: list, dtypes: bytes, env_first, env_count) -> code
PyObject* block_open(PyObject* self, PyObject* args) {
    BlockObject* b = as_block(self);
    PyObject* run = nullptr;
    PyObject* metrics = nullptr;
    const char* dtypes = nullptr;
    Py_ssize_t count = 0;
    unsigned env_first = 0;
    if (PyArg_ParseTuple(args, "OOy#In", &run, &metrics, &dtypes, &count, &env_first, &b->envs) == 0) return nullptr;
    if (PyList_Check(metrics) == 0 || PyList_Size(metrics) != count || b->envs < 1 || b->envs > (1 << 30))
        return PyErr_Format(PyExc_ValueError, "a block needs a list of metrics and 1 to 2^30 environments");
    Py_XDECREF(b->run);
    Py_XDECREF(b->metrics);
    b->run = Py_NewRef(run);
    b->metrics = Py_NewRef(metrics);
    b->count = count;
    int rc = 0;
    if (!open_block(b, dtypes, env_first, &rc)) return nullptr;
    b->id = rc;
    return PyLong_FromLong(rc);
}

PyObject* block_new(PyTypeObject* type, PyObject*, PyObject*) {
    const auto alloc = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    PyObject* self = alloc(type, 0);
    if (self == nullptr) return nullptr;
    BlockObject* b = as_block(self);
    b->run = nullptr;
    b->metrics = nullptr;
    b->rows = PyDict_New();
    b->id = -1;
    b->count = 0;
    b->envs = 0;
    return self;
}

void block_dealloc(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    Py_XDECREF(as_block(self)->run);
    Py_XDECREF(as_block(self)->metrics);
    Py_XDECREF(as_block(self)->rows);
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

PyMethodDef block_methods[] = {
    {"log", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(block_log)), METH_FASTCALL | METH_KEYWORDS,
     "log(values, step=n): a dict of arrays, (M, N) or (T, M, N)"},
    {"_open", block_open, METH_VARARGS, nullptr},
    {"_claim", block_claim, METH_VARARGS, nullptr},
    {"_commit", block_commit, METH_NOARGS, nullptr},
    {"_abort", block_abort, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot block_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(block_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(block_dealloc)},
    {Py_tp_methods, block_methods},
    {0, nullptr},
};

}  // namespace

PyType_Spec block_spec = {"_tallyman.Block", sizeof(BlockObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, block_slots};

}  // namespace tally::py
