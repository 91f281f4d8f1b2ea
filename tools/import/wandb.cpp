// SPDX-License-Identifier: Apache-2.0
//
// What    `.wandb` files: a 7-byte head, then LevelDB's log format (blocks of 32 KiB; fragments of CRC-32, length, kind, bytes) around
//         protobuf records. History becomes rows, system readings become rows named `system/<key>`.
#include <cstring>

#include <boost/crc.hpp>

#include "tools/import/flatten.hpp"
#include "tools/import/reader.hpp"

#include "import/wandb.pb.h"

namespace tally::import {

namespace {

constexpr std::string_view magic{":W&B\xE1\xBE\x00", 7};
constexpr std::size_t block_bytes = 32768;
constexpr std::size_t fragment_head = 7;
constexpr std::size_t config_bytes_max = 64 << 10;
enum Kind : std::uint8_t { full = 1, first = 2, middle = 3, last_part = 4 };

std::uint32_t crc_of(char kind, std::string_view bytes) {
    boost::crc_32_type crc;
    crc.process_byte(static_cast<unsigned char>(kind));
    crc.process_bytes(bytes.data(), bytes.size());
    return crc.checksum();
}

// The next whole record from `at` on, which is `base` bytes into the file.
struct Fragments {
    enum class Outcome { record, damaged, wait };

    std::uint64_t base;
    std::string_view bytes;
    std::string record;
    std::size_t end = 0;  // behind the record or the damage

    Outcome next() {
        record.clear();
        std::size_t at = 0;
        bool within = false;
        while (true) {
            const std::size_t room = block_bytes - static_cast<std::size_t>((base + at) % block_bytes);
            if (room < fragment_head) {  // the rest of a block is padding
                if (at + room > bytes.size()) return Outcome::wait;
                at += room;
                continue;
            }
            if (bytes.size() - at < fragment_head) return Outcome::wait;
            const char* head = bytes.data() + at;
            std::uint32_t crc;
            std::uint16_t length;
            std::memcpy(&crc, head, sizeof crc);
            std::memcpy(&length, head + 4, sizeof length);
            const auto kind = static_cast<std::uint8_t>(head[6]);
            const std::size_t next_block = at + room;
            if (crc == 0 && length == 0 && kind == 0) {  // not yet written, or never
                return bytes.find_first_not_of('\0', at) == bytes.npos ? Outcome::wait : damaged(next_block);
            }
            if (kind > last_part || kind == 0 || fragment_head + length > room) return damaged(next_block);
            if (bytes.size() - at - fragment_head < length) return Outcome::wait;
            const std::string_view body = bytes.substr(at + fragment_head, length);
            if (crc_of(head[6], body) != crc) return damaged(next_block);
            const bool begins = kind == full || kind == first;
            if (begins == within) return damaged(at + (begins ? 0 : fragment_head + length));  // a record without its end or begin
            record.append(body);
            at += fragment_head + length;
            if (kind == full || kind == last_part) {
                end = at;
                return Outcome::record;
            }
            if (record.size() > record_bytes_max) return damaged(at);
            within = true;
        }
    }

private:
    Outcome damaged(std::size_t resume_at) {
        if (resume_at > bytes.size()) return Outcome::wait;
        end = resume_at;
        return Outcome::damaged;
    }
};

class Wandb final : public Reader {
public:
    std::string format() const override { return "wandb run"; }
    std::string step() const override { return "_step"; }

    std::size_t read(std::string_view bytes, bool, RowSink& out) override {
        std::size_t at = 0;
        if (base_ == 0) {
            if (bytes.size() < magic.size()) return 0;
            at = magic.size();
        }
        Fragments fragments{base_ + at, bytes.substr(at), {}, 0};
        bool going = true;
        while (going) {
            fragments.base = base_ + at;
            fragments.bytes = bytes.substr(at);
            const auto outcome = fragments.next();
            if (outcome == Fragments::Outcome::wait) break;
            at += fragments.end;
            row_.clear();
            if (outcome == Fragments::Outcome::damaged) {
                row_.refused = "a record fails its checksum";
                going = out.row(row_);
            } else {
                going = take(fragments.record, out);
            }
        }
        base_ += at;
        return at;
    }

private:
    bool take(const std::string& bytes, RowSink& out) {
        record_.Clear();
        if (!record_.ParseFromString(bytes)) {
            row_.refused = "a record is not in wandb's format";
            return out.row(row_);
        }
        switch (record_.record_case()) {
            case wandb::Record::kHistory: return take_history(record_.history(), out);
            case wandb::Record::kStats: return take_stats(record_.stats(), out);
            case wandb::Record::kRun: return take_config(record_.run().config(), out);
            case wandb::Record::kConfig: return take_config(record_.config(), out);
            default: return true;
        }
    }

    static std::string name_of(const wandb::Item& item) {
        if (item.nested_key().empty()) return item.key();
        std::string name;
        for (const auto& key : item.nested_key()) name += (name.empty() ? "" : "/") + key;
        return name;
    }

    void take_items(const auto& items, std::string_view prefix) {
        for (const auto& item : items) {
            const std::string name = std::string(prefix) + name_of(item);
            if (flatten(item.value_json(), name, names_, row_)) continue;
            row_.refused = "the value of " + name + " is no JSON";
            return;
        }
    }

    bool take_history(const wandb::History& history, RowSink& out) {
        row_.step = history.has_step() ? history.step().num() : next_step_;
        take_items(history.item(), "");
        for (std::size_t i = 0; i < row_.cells.size(); ++i) {
            const std::string& name = names_[row_.cells[i].name];
            if (name == "_timestamp") row_.time_ns = time_ns_of(value_of(row_.cells[i].value));
            if (name != "_step") continue;
            if (const auto step = whole_of(row_.cells[i].value)) row_.step = *step;
            row_.cells.erase(row_.cells.begin() + static_cast<std::ptrdiff_t>(i--));
        }
        next_step_ = row_.step + 1;
        return out.row(row_);
    }

    bool take_stats(const wandb::Stats& stats, RowSink& out) {
        row_.step = next_reading_++;
        const double seconds = static_cast<double>(stats.timestamp().seconds());
        row_.time_ns = time_ns_of(seconds) == 0 ? 0 : time_ns_of(seconds) + std::clamp(stats.timestamp().nanos(), 0, 999'999'999);
        take_items(stats.item(), "system/");
        return out.row(row_);
    }

    bool take_config(const wandb::Config& config, RowSink& out) {
        std::string text;
        for (const auto& item : config.update()) {
            // Keys come as bytes: one that would need escapes is left out rather than written wrong.
            const std::string name = name_of(item);
            if (name.find_first_of("\"\\") != name.npos || !metric_name_valid(name) || item.value_json().empty()) continue;
            text += (text.empty() ? "{\"" : ",\"") + name + "\":" + item.value_json();
        }
        if (!text.empty() && text.size() < config_bytes_max) out.config(text + "}");
        return true;
    }

    std::uint64_t base_ = 0;
    std::int64_t next_step_ = 0;
    std::int64_t next_reading_ = 0;
    wandb::Record record_;
    Row row_;
};

}  // namespace

bool looks_like_wandb(std::string_view head) { return head.starts_with(magic.substr(0, 4)); }

std::unique_ptr<Reader> open_wandb() { return std::make_unique<Wandb>(); }

}  // namespace tally::import
