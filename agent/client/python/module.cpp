// SPDX-License-Identifier: Apache-2.0
#include "agent/client/python/module.hpp"

#include "agent/client/wait_hook.hpp"

namespace {

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_tallyman", "Rings of tallyman; use the package tallyman.", -1, nullptr,
                          nullptr,               nullptr,     nullptr,                                        nullptr};

bool add_type(PyObject* module, const char* name, PyType_Spec* spec) {
    PyObject* type = PyType_FromSpec(spec);
    return type != nullptr && PyModule_AddObject(module, name, type) == 0;
}

thread_local bool unlocked = false;

void* begin_wait() { return unlocked ? nullptr : PyEval_SaveThread(); }
void end_wait(void* state) {
    if (state != nullptr) PyEval_RestoreThread(static_cast<PyThreadState*>(state));
}

}  // namespace

namespace tally::py {

Unlocked::Unlocked() : state_(PyEval_SaveThread()) { unlocked = true; }
Unlocked::~Unlocked() {
    unlocked = false;
    PyEval_RestoreThread(state_);
}

void give_up_lock_in_waits() { client::wait_hook = {begin_wait, end_wait}; }

}  // namespace tally::py

PyMODINIT_FUNC PyInit__tallyman() {
    PyObject* module = PyModule_Create(&definition);
    if (module == nullptr) return nullptr;
    tally::py::give_up_lock_in_waits();
    if (!add_type(module, "Run", &tally::py::run_spec) || !add_type(module, "Block", &tally::py::block_spec)) {
        Py_DECREF(module);
        return nullptr;
    }
    return module;
}
