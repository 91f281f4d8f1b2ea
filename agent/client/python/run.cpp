// SPDX-License-Identifier: Apache-2.0
//
// What  _tallyman.Run: opening, scalars, episodes, events, flush, progress.

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/client/python/array.hpp"
#include "agent/client/python/module.hpp"

namespace tally::py {

constexpr int dtypes = 14;
constexpr size_t known_names = 512;

// Holds its name, so that no other str can have the address.
struct KnownName {
    PyObject* name;
    int ids[dtypes];  // series id + 1
};

namespace {

constexpr Py_ssize_t on_stack = 64;

RunObject* as_run(PyObject* o) { return reinterpret_cast<RunObject*>(o); }
template <class F>
PyCFunction method(F* f) { return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f)); }

// The id of (name, dtype), from the dict that lives as long as the run.
int look_up_series(RunObject* self, PyObject* name, int dtype) {
    PyObject* ids = PyDict_GetItemWithError(self->names, name);
    if (ids == nullptr) {
        if (PyErr_Occurred() != nullptr) return -1;
        if (PyUnicode_Check(name) == 0) {
            PyErr_SetString(PyExc_TypeError, "a metric name must be a str");
            return -1;
        }
        ids = PyByteArray_FromStringAndSize(nullptr, dtypes * static_cast<Py_ssize_t>(sizeof(int)));
        if (ids == nullptr) return -1;
        ::memset(PyByteArray_AsString(ids), 0, dtypes * sizeof(int));
        const int rc = PyDict_SetItem(self->names, name, ids);
        Py_DECREF(ids);  // the dict holds it
        if (rc != 0) return -1;
    }
    char* at = PyByteArray_AsString(ids) + static_cast<size_t>(dtype) * sizeof(int);
    int id = 0;
    ::memcpy(&id, at, sizeof id);
    if (id != 0) return id - 1;
    Py_ssize_t length = 0;
    const char* text = PyUnicode_AsUTF8AndSize(name, &length);
    if (text == nullptr) return -1;
    if (static_cast<size_t>(length) != ::strlen(text)) {
        PyErr_SetString(PyExc_ValueError, "a metric name has no NUL");
        return -1;
    }
    id = tally_series(self->run, text, dtype);
    if (id < 0) {
        PyErr_SetString(PyExc_ValueError, tally_last_error(self->run));
        return -1;
    }
    const int stored = id + 1;
    ::memcpy(at, &stored, sizeof stored);
    return id;
}

// A trainer logs the same few str objects at every step: their address is the key, the dict is for the rest.
int series_of(RunObject* self, PyObject* name, int dtype) {
    KnownName& known = self->known[(reinterpret_cast<uintptr_t>(name) >> 4) % known_names];
    if (known.name == name && known.ids[dtype] != 0) return known.ids[dtype] - 1;
    const int id = look_up_series(self, name, dtype);
    if (id < 0) return id;
    if (known.name != name) {
        PyObject* before = known.name;
        known = {};
        known.name = Py_NewRef(name);
        Py_XDECREF(before);
    }
    known.ids[dtype] = id + 1;
    return id;
}

bool integer_bits(PyObject* value, int* dtype, uint64_t* bits) {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow == 0) {
        if (v == -1 && PyErr_Occurred() != nullptr) return false;
        *dtype = TALLY_I64;
        *bits = static_cast<uint64_t>(v);
        return true;
    }
    if (overflow > 0) {
        *bits = PyLong_AsUnsignedLongLong(value);
        *dtype = TALLY_U64;
        if (PyErr_Occurred() == nullptr) return true;
        PyErr_Clear();
    }
    PyErr_SetString(PyExc_ValueError, "an integer must fit 64 bits");
    return false;
}

bool double_bits(double v, int* dtype, uint64_t* bits) {
    *dtype = TALLY_F64;
    ::memcpy(bits, &v, sizeof v);
    return true;
}

// The value's own dtype and bits: float -> f64, int -> i64 (u64 beyond), bool -> bool, numpy scalars as they are.
bool scalar_bits(PyObject* value, int* dtype, uint64_t* bits) {
    if (PyFloat_Check(value)) return double_bits(PyFloat_AsDouble(value), dtype, bits);
    if (PyBool_Check(value)) {
        *dtype = TALLY_BOOL;
        *bits = value == Py_True ? 1 : 0;
        return true;
    }
    if (PyLong_Check(value)) return integer_bits(value, dtype, bits);
    if (PyObject_CheckBuffer(value)) {
        Array array;
        if (!array.open(value)) return false;
        if (array.count() != 1) {
            PyErr_SetString(PyExc_ValueError, "a scalar metric takes one value; use run.block for arrays");
            return false;
        }
        *dtype = array.dtype;
        *bits = 0;
        ::memcpy(bits, array.data, static_cast<size_t>(array.itemsize));
        if (array.dtype == TALLY_BOOL && *bits != 0) *bits = 1;
        return true;
    }
    const double v = PyFloat_AsDouble(value);  // anything with __float__: torch, jax, Fraction
    if (v == -1.0 && PyErr_Occurred() != nullptr) return false;
    return double_bits(v, dtype, bits);
}

bool add_scalar(RunObject* self, PyObject* name, PyObject* value, tally_scalar* out) {
    int dtype = 0;
    uint64_t bits = 0;
    if (!scalar_bits(value, &dtype, &bits)) return false;
    const int id = series_of(self, name, dtype);
    if (id < 0) return false;
    *out = {static_cast<uint32_t>(id), 0, bits};
    return true;
}

PyObject* log_dict(PyObject* self, PyObject* dict, int64_t step, const tally_at* at) {
    tally_scalar stack[on_stack];
    const Py_ssize_t size = PyDict_Size(dict);
    tally_scalar* values = stack;
    if (size > on_stack) values = static_cast<tally_scalar*>(::malloc(static_cast<size_t>(size) * sizeof(tally_scalar)));
    if (values == nullptr) return PyErr_NoMemory();
    Py_ssize_t position = 0;
    Py_ssize_t n = 0;
    PyObject* name = nullptr;
    PyObject* value = nullptr;
    bool ok = true;
    while (ok && n < size && PyDict_Next(dict, &position, &name, &value)) ok = add_scalar(as_run(self), name, value, &values[n++]);
    PyObject* out = nullptr;
    if (ok) out = outcome(self, tally_log_many(as_run(self)->run, step, values, static_cast<size_t>(n), at));
    if (values != stack) ::free(values);
    return out;
}

PyObject* run_log(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
    static const char* const known[] = {"values", "value", "step", "time", "rl_step"};
    PyObject* given[5] = {};
    if (live(self) == nullptr || !read_arguments(args, n, names, known, 5, 2, given)) return nullptr;
    const Inside call_under_way(self);
    if (given[0] == nullptr || given[2] == nullptr) {
        PyErr_SetString(PyExc_TypeError, "log(values, step=n) or log(name, value, step=n)");
        return nullptr;
    }
    int64_t step = 0;
    tally_at at{};
    if (!read_i64(given[2], "step", &step) || !read_at(given[3], given[4], &at)) return nullptr;
    if (PyDict_Check(given[0])) return log_dict(self, given[0], step, &at);
    if (given[1] == nullptr) {
        PyErr_SetString(PyExc_TypeError, "log takes a dict, or a name and a value");
        return nullptr;
    }
    tally_scalar one{};
    if (!add_scalar(as_run(self), given[0], given[1], &one)) return nullptr;
    return outcome(self, tally_log_many(as_run(self)->run, step, &one, 1, &at));
}

// (socket, project, name, run_id, role, labels, config, continues, fork_step, producers, on_full, block_timeout_ns, mode)
// -> (code, sentence)
PyObject* run_open(PyObject* self, PyObject* args) {
    tally_run_options o = TALLY_RUN_OPTIONS_INIT;
    long long fork_step = 0;
    long long block_timeout = 0;
    if (PyArg_ParseTuple(args, "zzzzzzzzLIiLi", &o.socket, &o.project, &o.name, &o.run_id, &o.role, &o.labels_json, &o.config_json,
                         &o.continues, &fork_step, &o.producers, &o.on_full, &block_timeout, &o.mode) == 0)
        return nullptr;
    o.fork_step = fork_step;
    o.block_timeout_ns = block_timeout;
    int rc = 0;
    tally_run* run = nullptr;
    {
        const Unlocked others;
        rc = tally_run_open(&o, &run);
    }
    if (rc >= 0) as_run(self)->run = run;
    return Py_BuildValue("is", rc, rc < 0 ? tally_last_error(nullptr) : "");
}

PyObject* run_close(PyObject* self, PyObject* args) {
    int exit_code = 0;
    if (PyArg_ParseTuple(args, "i", &exit_code) == 0) return nullptr;
    tally_run* run = as_run(self)->run;
    as_run(self)->run = nullptr;  // nobody enters any more
    while (as_run(self)->inside != 0) {
        const Unlocked others;
        ::usleep(1000);
    }
    int rc = 0;
    {
        const Unlocked others;
        if (run != nullptr) rc = tally_run_close(run, exit_code);
    }
    return PyLong_FromLong(rc);
}

PyObject* run_id(PyObject* self, PyObject*) {
    tally_run* run = live(self);
    return run == nullptr ? nullptr : PyUnicode_FromString(tally_run_id(run));
}

PyObject* run_event(PyObject* self, PyObject* args) {
    const char* kind = nullptr;
    const char* key = nullptr;
    const char* text = nullptr;
    Py_ssize_t size = 0;
    PyObject* time = nullptr;
    tally_at at{};
    if (live(self) == nullptr || PyArg_ParseTuple(args, "sss#O", &kind, &key, &text, &size, &time) == 0) return nullptr;
    if (!read_at(time, nullptr, &at)) return nullptr;
    const Inside call_under_way(self);
    return outcome(self, tally_event(as_run(self)->run, kind, key, text, static_cast<size_t>(size), at.time_ns));
}

PyObject* run_rewind(PyObject* self, PyObject* args) {
    long long step = 0;
    if (live(self) == nullptr || PyArg_ParseTuple(args, "L", &step) == 0) return nullptr;
    const Inside call_under_way(self);
    return outcome(self, tally_rewind(as_run(self)->run, step));
}

PyObject* run_flush(PyObject* self, PyObject* args) {
    int level = 0;
    long long timeout = 0;
    tally_run* run = live(self);
    if (run == nullptr || PyArg_ParseTuple(args, "iL", &level, &timeout) == 0) return nullptr;
    const Inside call_under_way(self);
    int rc = 0;
    {
        const Unlocked others;
        rc = tally_flush(run, level, timeout);
    }
    return PyLong_FromLong(rc);
}

PyObject* run_progress(PyObject* self, PyObject*) {
    tally_run* run = live(self);
    if (run == nullptr) return nullptr;
    tally_progress_info i{};
    i.size = sizeof i;
    tally_progress(run, &i);
    return Py_BuildValue("{sKsKsKsKsKsKsIsIsIsOss}", "logged", i.points_logged, "dropped", i.points_dropped, "bytes_logged",
                         i.bytes_logged, "bytes_durable", i.bytes_durable, "bytes_received", i.bytes_received, "bytes_stored",
                         i.bytes_stored, "rings", i.rings, "rings_attached", i.rings_attached, "rings_refused", i.rings_refused,
                         "connected", i.connected != 0 ? Py_True : Py_False, "error", tally_last_error(run));
}

double float_of(uint64_t bits) {
    float f = 0;
    ::memcpy(&f, &bits, sizeof f);
    return static_cast<double>(f);
}

// One column of an episode call as n contiguous values of `to`; new memory.
void* column(PyObject* object, const char* what, int to, Py_ssize_t* n) {
    Array a;
    if (!a.open(object)) return nullptr;
    if (*n < 0) *n = a.count();
    if (a.count() != *n || a.ndim > 1) {
        PyErr_Format(PyExc_ValueError, "log_episodes: %s has %zd values in %d dimensions, expected %zd in one", what, a.count(), a.ndim, *n);
        return nullptr;
    }
    auto* out = static_cast<uint64_t*>(::malloc(static_cast<size_t>(*n) * 8 + 8));
    if (out == nullptr) return PyErr_NoMemory(), nullptr;
    const bool real = a.dtype <= TALLY_F64;
    if (a.dtype == TALLY_F16) {
        ::free(out);
        PyErr_Format(PyExc_TypeError, "log_episodes: %s must be float32, float64 or integers", what);
        return nullptr;
    }
    for (Py_ssize_t i = 0; i < *n; ++i) {
        uint64_t bits = 0;
        ::memcpy(&bits, a.data + (a.ndim == 0 ? 0 : i * a.strides[0]), static_cast<size_t>(a.itemsize));
        double value = 0;
        if (a.dtype == TALLY_F64) ::memcpy(&value, &bits, 8);
        if (a.dtype == TALLY_F32) value = float_of(bits);
        const int shift = 64 - 8 * static_cast<int>(a.itemsize);
        const bool is_signed = a.dtype >= TALLY_I8 && a.dtype <= TALLY_I64;
        const int64_t whole = real ? static_cast<int64_t>(value)
                                   : is_signed ? static_cast<int64_t>(bits << shift) >> shift : static_cast<int64_t>(bits);
        if (to == TALLY_F64) {
            const double d = real ? value : static_cast<double>(whole);
            ::memcpy(out + i, &d, 8);
        } else {
            if (to == TALLY_U32 && (whole < 0 || whole > UINT32_MAX)) {
                ::free(out);
                PyErr_Format(PyExc_ValueError, "log_episodes: %s must be 0 to 2^32-1", what);
                return nullptr;
            }
            if (to == TALLY_U32) reinterpret_cast<uint32_t*>(out)[i] = static_cast<uint32_t>(whole);
            else out[i] = static_cast<uint64_t>(whole);
        }
    }
    return out;
}

// (env, episode, length, ret, step, stride, time, rl_step)
PyObject* run_episodes(PyObject* self, PyObject* args) {
    PyObject* in[4] = {};
    PyObject* time = nullptr;
    PyObject* rl_step = nullptr;
    long long step = 0;
    long long stride = 1;
    if (live(self) == nullptr ||
        PyArg_ParseTuple(args, "OOOOLLOO", &in[0], &in[1], &in[2], &in[3], &step, &stride, &time, &rl_step) == 0)
        return nullptr;
    tally_at at{};
    if (!read_at(time, rl_step, &at)) return nullptr;
    const Inside call_under_way(self);
    static const char* const names[] = {"env", "episode", "length", "ret"};
    static const int to[] = {TALLY_U32, TALLY_I64, TALLY_I64, TALLY_F64};
    void* columns[4] = {};
    Py_ssize_t n = -1;
    bool ok = true;
    for (int i = 0; i < 4 && ok; ++i) ok = (columns[i] = column(in[i], names[i], to[i], &n)) != nullptr;
    PyObject* out = nullptr;
    if (ok)
        out = outcome(self, tally_episodes(as_run(self)->run, step, stride, static_cast<size_t>(n), static_cast<uint32_t*>(columns[0]),
                                           static_cast<int64_t*>(columns[1]), static_cast<int64_t*>(columns[2]),
                                           static_cast<double*>(columns[3]), &at));
    for (void* c : columns) ::free(c);
    return out;
}

PyObject* run_new(PyTypeObject* type, PyObject*, PyObject*) {
    const auto alloc = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    PyObject* self = alloc(type, 0);
    if (self == nullptr) return nullptr;
    as_run(self)->run = nullptr;
    as_run(self)->inside = 0;
    as_run(self)->names = PyDict_New();
    as_run(self)->known = static_cast<KnownName*>(::calloc(known_names, sizeof(KnownName)));
    if (as_run(self)->names != nullptr && as_run(self)->known != nullptr) return self;
    Py_DECREF(self);
    return PyErr_NoMemory();
}

// A run that nobody closed is left open: its end is then the process's, which the agent tells from a clean one.
void run_dealloc(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    for (size_t i = 0; as_run(self)->known != nullptr && i < known_names; ++i) Py_XDECREF(as_run(self)->known[i].name);
    ::free(as_run(self)->known);
    Py_XDECREF(as_run(self)->names);
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

PyMethodDef run_methods[] = {
    {"log", method(run_log), METH_FASTCALL | METH_KEYWORDS, "log(values, step=n) or log(name, value, step=n)"},
    {"_open", run_open, METH_VARARGS, nullptr},
    {"_close", run_close, METH_VARARGS, nullptr},
    {"_id", run_id, METH_NOARGS, nullptr},
    {"_event", run_event, METH_VARARGS, nullptr},
    {"_rewind", run_rewind, METH_VARARGS, nullptr},
    {"_flush", run_flush, METH_VARARGS, nullptr},
    {"_progress", run_progress, METH_NOARGS, nullptr},
    {"_episodes", run_episodes, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot run_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(run_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(run_dealloc)},
    {Py_tp_methods, run_methods},
    {0, nullptr},
};

}  // namespace

PyType_Spec run_spec = {"_tallyman.Run", sizeof(RunObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, run_slots};

tally_run* live(PyObject* self) {
    tally_run* run = as_run(self)->run;
    if (run == nullptr) PyErr_SetString(PyExc_RuntimeError, "the run is not open: it was finished");
    return run;
}

PyObject* outcome(PyObject* run, int code) {
    if (code >= 0) Py_RETURN_NONE;
    return PyObject_CallMethod(run, "_fault", "is", code, tally_last_error(as_run(run)->run));
}

bool read_i64(PyObject* value, const char* what, int64_t* out) {
    PyObject* whole = PyNumber_Index(value);  // numpy integers too
    if (whole == nullptr) return PyErr_Format(PyExc_TypeError, "%s must be an integer", what) != nullptr;
    const long long v = PyLong_AsLongLong(whole);
    Py_DECREF(whole);
    if (v == -1 && PyErr_Occurred() != nullptr) return PyErr_Format(PyExc_ValueError, "%s must fit 64 bits", what) != nullptr;
    *out = v;
    return true;
}

bool read_at(PyObject* time, PyObject* rl_step, tally_at* at) {
    if (rl_step != nullptr && rl_step != Py_None) {
        if (!read_i64(rl_step, "rl_step", &at->rl_step)) return false;
        at->has_rl_step = 1;
    }
    if (time == nullptr || time == Py_None) return true;
    if (PyLong_Check(time)) return read_i64(time, "time", &at->time_ns);
    PyObject* seconds = PyObject_CallMethod(time, "timestamp", nullptr);
    if (seconds == nullptr) return false;
    const double s = PyFloat_AsDouble(seconds);
    Py_DECREF(seconds);
    // A datetime counts microseconds, a double of seconds holds them exactly enough to round.
    at->time_ns = static_cast<int64_t>(s * 1e6 + (s < 0 ? -0.5 : 0.5)) * 1000;
    return PyErr_Occurred() == nullptr;
}

bool read_arguments(PyObject* const* args, Py_ssize_t n, PyObject* names, const char* const* known, int count, int positional,
                    PyObject** values) {
    if (n > positional) return PyErr_Format(PyExc_TypeError, "takes at most %d positional arguments", positional) != nullptr;
    for (Py_ssize_t i = 0; i < n; ++i) values[i] = args[i];
    const Py_ssize_t named = names == nullptr ? 0 : PyTuple_Size(names);
    for (Py_ssize_t i = 0; i < named; ++i) {
        PyObject* name = PyTuple_GetItem(names, i);
        int k = 0;
        while (k < count && PyUnicode_CompareWithASCIIString(name, known[k]) != 0) ++k;
        if (k == count) return PyErr_Format(PyExc_TypeError, "unexpected argument '%U'", name) != nullptr;
        values[k] = args[n + i];
    }
    return true;
}

}  // namespace tally::py
