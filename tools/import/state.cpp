// SPDX-License-Identifier: Apache-2.0
#include "tools/import/state.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include <nlohmann/json.hpp>

namespace tally::import {

namespace {

constexpr std::size_t state_bytes_max = std::size_t{64} << 20;
constexpr int version = 1;

bool parse(std::string_view text, std::vector<Known>& known) {
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object() || json.value("version", 0) != version || !json.contains("sources") || !json["sources"].is_array()) return false;
    for (const auto& s : json["sources"]) {
        if (!s.is_object() || !s.contains("path") || !s["path"].is_string()) return false;
        for (const char* key : {"rows", "hash"}) {
            if (!s.contains(key) || !s[key].is_number_unsigned()) return false;
        }
        if (!s.contains("open") || !s["open"].is_boolean()) return false;
        known.push_back({s["path"].get<std::string>(), s["rows"].get<std::uint64_t>(), s["hash"].get<std::uint64_t>(), s["open"].get<bool>()});
    }
    return true;
}

}  // namespace

std::string State::default_dir() {
    const auto env = [](const char* name) {
        const char* v = std::getenv(name);
        return std::string(v != nullptr ? v : "");
    };
    if (const std::string state = env("XDG_STATE_HOME"); state.starts_with('/')) return state + "/tallyman/import";
    if (::geteuid() == 0) return "/var/lib/tallyman/import";
    return env("HOME") + "/.local/state/tallyman/import";
}

Result<State> State::open(const std::string& dir, const std::string& run) {
    TALLY_TRY(make_dirs(dir));
    State state;
    state.file_ = dir + "/" + run + ".json";
    state.lock_ = Fd(::open((dir + "/" + run + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!state.lock_) return fail_errno("import state: lock");
    if (::flock(state.lock_.get(), LOCK_EX | LOCK_NB) != 0) return fail(Code::busy, "import state: another import into this run goes on");
    const auto bytes = read_file(state.file_, state_bytes_max);
    if (!bytes) {
        if (bytes.error().code == Code::not_found) return state;
        return std::unexpected(bytes.error());
    }
    if (!parse({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, state.known_)) return fail(Code::corrupt, "import state: not readable");
    return state;
}

const Known* State::find(const std::string& path) const {
    const auto it = std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.path == path; });
    return it == known_.end() ? nullptr : &*it;
}

Status State::set(const Known& entry) {
    if (const Known* k = find(entry.path)) {
        known_[static_cast<std::size_t>(k - known_.data())] = entry;
    } else {
        known_.push_back(entry);
    }
    nlohmann::json sources = nlohmann::json::array();
    for (const Known& k : known_) sources.push_back({{"path", k.path}, {"rows", k.rows}, {"hash", k.hash}, {"open", k.open}});
    const std::string text = nlohmann::json{{"version", version}, {"sources", sources}}.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
    return write_file_atomic(file_, as_bytes(std::string_view(text)));
}

}  // namespace tally::import
