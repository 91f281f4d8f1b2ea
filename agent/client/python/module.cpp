// SPDX-License-Identifier: Apache-2.0
#include "agent/client/python/module.hpp"

namespace {

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_tallyman", "Rings of tallyman; use the package tallyman.", -1, nullptr,
                          nullptr,               nullptr,     nullptr,                                        nullptr};

bool add_type(PyObject* module, const char* name, PyType_Spec* spec) {
    PyObject* type = PyType_FromSpec(spec);
    return type != nullptr && PyModule_AddObject(module, name, type) == 0;
}

}  // namespace

PyMODINIT_FUNC PyInit__tallyman() {
    PyObject* module = PyModule_Create(&definition);
    if (module == nullptr) return nullptr;
    if (!add_type(module, "Run", &tally::py::run_spec) || !add_type(module, "Block", &tally::py::block_spec)) {
        Py_DECREF(module);
        return nullptr;
    }
    return module;
}
