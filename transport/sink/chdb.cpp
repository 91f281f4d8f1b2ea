// SPDX-License-Identifier: Apache-2.0
#include "transport/sink/chdb.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <sstream>

#include "agent/base/log.hpp"

namespace tally::sink {

namespace {

// The functions of the C API that are used, by the names the library exports.
struct Api {
    void (*set_signal_handlers_enabled)(int) = nullptr;
    void** (*connect)(int, char**) = nullptr;
    void (*close_conn)(void**) = nullptr;
    void* (*query_n)(void*, const char*, std::size_t, const char*, std::size_t) = nullptr;
    void* (*query_with_params_n)(void*, const char*, std::size_t, const char*, std::size_t, const char* const*,
                                 const std::size_t*, const char* const*, const std::size_t*, std::size_t) = nullptr;
    char* (*result_buffer)(void*) = nullptr;
    std::size_t (*result_length)(void*) = nullptr;
    const char* (*result_error)(void*) = nullptr;
    void (*destroy_query_result)(void*) = nullptr;
    void* (*stream_insert_n)(void*, const char*, std::size_t, const char*, std::size_t) = nullptr;
    int (*stream_append)(void*, const void*, std::size_t) = nullptr;
    void* (*stream_done)(void*) = nullptr;
    void (*stream_cancel_insert)(void*) = nullptr;
    const char* (*stream_insert_error)(void*) = nullptr;
    void (*destroy_insert_stream)(void*) = nullptr;
};

constexpr std::size_t append_bytes = 1U << 20;  // the engine copies each slice and queues at most 16 of them
constexpr std::string_view native = "Native";

Api api;
std::string api_path;  // of the loaded library; empty: none yet
std::mutex api_mutex;

template <class F>
bool bind(void* library, const char* name, F& out) {
    out = reinterpret_cast<F>(::dlsym(library, name));
    if (out == nullptr) log_error("sink.chdb_symbol_missing", {{"name", name}});
    return out != nullptr;
}

bool bind_all(void* lib, Api& a) {
    bool ok = bind(lib, "chdb_set_signal_handlers_enabled", a.set_signal_handlers_enabled);
    ok = bind(lib, "chdb_connect", a.connect) && ok;
    ok = bind(lib, "chdb_close_conn", a.close_conn) && ok;
    ok = bind(lib, "chdb_query_n", a.query_n) && ok;
    ok = bind(lib, "chdb_query_with_params_n", a.query_with_params_n) && ok;
    ok = bind(lib, "chdb_result_buffer", a.result_buffer) && ok;
    ok = bind(lib, "chdb_result_length", a.result_length) && ok;
    ok = bind(lib, "chdb_result_error", a.result_error) && ok;
    ok = bind(lib, "chdb_destroy_query_result", a.destroy_query_result) && ok;
    ok = bind(lib, "chdb_stream_insert_n", a.stream_insert_n) && ok;
    ok = bind(lib, "chdb_stream_append", a.stream_append) && ok;
    ok = bind(lib, "chdb_stream_done", a.stream_done) && ok;
    ok = bind(lib, "chdb_stream_cancel_insert", a.stream_cancel_insert) && ok;
    ok = bind(lib, "chdb_stream_insert_error", a.stream_insert_error) && ok;
    return bind(lib, "chdb_destroy_insert_stream", a.destroy_insert_stream) && ok;
}

Status load(const std::string& wanted) {
    const std::scoped_lock lock(api_mutex);
    if (!api_path.empty()) return {};
    const std::string path = find_chdb(wanted);
    if (path.empty()) return fail(Code::missing, "sink: libchdb not found");
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char* why = ::dlerror();
        log_error("sink.chdb_load", {{"path", path}, {"why", why == nullptr ? "" : why}});
        return fail(Code::missing, "sink: libchdb cannot be loaded");
    }
    Api bound;
    if (!bind_all(library, bound)) return fail(Code::missing, "sink: libchdb is too old");
    bound.set_signal_handlers_enabled(0);  // signals are the process's own business
    api = bound;
    api_path = path;
    return {};
}

bool is_file(const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(path, ignored);
}

// Beside the binary (build/tallyman -> build/deps), one up (build/tests/x), and in the working directory.
std::string find_in_build() {
    namespace fs = std::filesystem;
    std::error_code error;
    std::vector<fs::path> roots;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    if (!error) {
        const fs::path dir = self.parent_path();
        for (const fs::path& base : {dir, dir.parent_path(), dir.parent_path() / "build", dir.parent_path().parent_path() / "build"})
            roots.push_back(base / "deps");
    }
    for (const fs::path& root : roots) {
        if (!fs::is_directory(root, error)) continue;
        constexpr auto options = fs::directory_options::skip_permission_denied;
        for (fs::recursive_directory_iterator it(root, options, error), end; !error && it != end; it.increment(error)) {
            if (it.depth() > 6) it.disable_recursion_pending();
            if (it->path().filename() == "libchdb.so" && is_file(it->path())) return it->path();
        }
    }
    return {};
}

std::string take_text(const char* text) { return text == nullptr ? std::string() : std::string(text); }

// Empty text is no error; a null result is one the engine cannot describe.
Answer take_answer(void* result) {
    Answer answer;
    if (result == nullptr) {
        answer.error = "the engine gave no result";
        return answer;
    }
    answer.error = take_text(api.result_error(result));
    const std::size_t length = api.result_length(result);
    if (answer.error.empty() && length != 0) answer.rows.assign(api.result_buffer(result), length);
    api.destroy_query_result(result);
    return answer;
}

}  // namespace

std::string find_chdb(const std::string& wanted) {
    if (!wanted.empty()) return is_file(wanted) ? wanted : std::string();
    if (const char* env = std::getenv("TALLYMAN_CHDB"); env != nullptr && *env != 0) return is_file(env) ? env : "";
    if (const char* env = std::getenv("LD_LIBRARY_PATH"); env != nullptr) {
        std::istringstream dirs{std::string(env)};
        for (std::string dir; std::getline(dirs, dir, ':');)
            if (!dir.empty() && is_file(dir + "/libchdb.so")) return dir + "/libchdb.so";
    }
    for (const char* dir : {"/usr/local/lib", "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/opt/tallyman/lib"})
        if (is_file(std::filesystem::path(dir) / "libchdb.so")) return std::string(dir) + "/libchdb.so";
    return find_in_build();
}

Result<std::unique_ptr<Connection>> Connection::open(const ConnectionOptions& options) {
    TALLY_TRY(load(options.library));
    std::vector<std::string> words{"tallyman", "--path=" + options.dir};
    for (const auto& [name, value] : options.settings) words.push_back("--" + name + "=" + value);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    void** connected = api.connect(static_cast<int>(argv.size()), argv.data());
    if (connected == nullptr || *connected == nullptr) return fail(Code::busy, "sink: the store cannot be opened");
    auto connection = std::unique_ptr<Connection>(new Connection);
    connection->handle_ = connected;
    return connection;
}

Connection::~Connection() {
    if (handle_ != nullptr) api.close_conn(static_cast<void**>(handle_));
}

Answer Connection::query(std::string_view sql, std::string_view format, const Params& params) {
    void* connection = *static_cast<void**>(handle_);
    if (params.empty())
        return take_answer(api.query_n(connection, sql.data(), sql.size(), format.data(), format.size()));
    std::vector<const char*> names;
    std::vector<const char*> values;
    std::vector<std::size_t> name_bytes;
    std::vector<std::size_t> value_bytes;
    for (const auto& [name, value] : params) {
        names.push_back(name.data());
        name_bytes.push_back(name.size());
        values.push_back(value.data());
        value_bytes.push_back(value.size());
    }
    return take_answer(api.query_with_params_n(connection, sql.data(), sql.size(), format.data(), format.size(), names.data(),
                                               name_bytes.data(), values.data(), value_bytes.data(), params.size()));
}

std::string Connection::insert(const std::string& into, std::span<const ByteView> pieces) {
    void* stream =
        api.stream_insert_n(*static_cast<void**>(handle_), into.data(), into.size(), native.data(), native.size());
    if (stream == nullptr) return "the engine opened no insert stream";
    std::string error = take_text(api.stream_insert_error(stream));
    for (std::size_t i = 0; i < pieces.size() && error.empty(); ++i) {
        for (ByteView rest = pieces[i]; !rest.empty() && error.empty();) {
            const std::size_t n = std::min(rest.size(), append_bytes);
            if (api.stream_append(stream, rest.data(), n) != 0) {
                error = take_text(api.stream_insert_error(stream));
                if (error.empty()) error = "the insert stream broke";
            }
            rest = rest.subspan(n);
        }
    }
    if (error.empty())
        error = take_answer(api.stream_done(stream)).error;
    else
        api.stream_cancel_insert(stream);
    api.destroy_insert_stream(stream);
    return error;
}

}  // namespace tally::sink
