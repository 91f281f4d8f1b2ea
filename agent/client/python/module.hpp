// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What  The two types of the extension module: Run and Block; tallyman/__init__.py derives from both.

#include "agent/client/python/limited_api.hpp"
#include "agent/client/tallyman.h"

namespace tally::py {

struct KnownName;

struct RunObject {
    PyObject_HEAD
    tally_run* run;   // null before _open and after _close
    KnownName* known;  // the same str objects again: found by address
    PyObject* names;  // metric name -> bytearray of int32 series id + 1 by dtype
    int inside;       // calls under way, of all threads; changed with the interpreter lock held
};

struct BlockObject {
    PyObject_HEAD
    PyObject* run;      // RunObject
    PyObject* metrics;  // list of names
    PyObject* rows;     // metric name -> its row
    int id;
    Py_ssize_t count;   // of metrics
    Py_ssize_t envs;
};

extern PyType_Spec run_spec;
extern PyType_Spec block_spec;

// A call under way on a run: finishing it waits until they are over, whether they hold the interpreter lock or not.
class Inside {
public:
    explicit Inside(PyObject* run) : run_(reinterpret_cast<RunObject*>(run)) { ++run_->inside; }
    ~Inside() { --run_->inside; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

private:
    RunObject* run_;
};

// Other Python threads run while this lives.
class Unlocked {
public:
    Unlocked();
    ~Unlocked();
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

private:
    PyThreadState* state_;
};
// Gives the interpreter lock up while a log call waits for room in its ring.
void give_up_lock_in_waits();

// A live handle, or null with an exception set.
tally_run* live(PyObject* self);
// Turns a negative result into what the run's policy says: its `_fault(code, sentence)`. Null when that raised.
PyObject* outcome(PyObject* run, int code);
// time= : None, integer nanoseconds, or anything with timestamp(). rl_step= : None or an integer.
bool read_at(PyObject* time, PyObject* rl_step, tally_at* at);
bool read_i64(PyObject* value, const char* what, int64_t* out);
// Keyword arguments of a fast call by name; values[] starts as null. `positional` first ones may come by position.
bool read_arguments(PyObject* const* args, Py_ssize_t n, PyObject* names, const char* const* known, int count, int positional,
                    PyObject** values);

}  // namespace tally::py
