// SPDX-License-Identifier: Apache-2.0
#include "tools/import/flatten.hpp"

#include <rapidjson/document.h>
#include <rapidjson/reader.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

namespace tally::import {

namespace rj = rapidjson;

namespace {

constexpr std::size_t depth_max = 64;
// Numbers come as their text, so that our own reading, which is exact, decides. Iterative: depth costs no stack.
constexpr unsigned flags = rj::kParseIterativeFlag | rj::kParseNumbersAsStringsFlag | rj::kParseNanAndInfFlag;

class Flattener : public rj::BaseReaderHandler<rj::UTF8<>, Flattener> {
public:
    Flattener(std::string_view prefix, std::string_view list, Names& names, Row& row, const std::function<bool(const Row&)>* each)
        : list_(list), names_(names), row_(row), each_(each), path_(prefix) {}

    bool Null() {
        if (counts()) ++row_.nulls;
        return true;
    }
    bool Bool(bool v) {
        if (counts()) row_.cells.push_back({names_.index_of(path_), of_bool(v)});
        return true;
    }
    bool RawNumber(const char* text, rj::SizeType length, bool) {
        if (!counts()) return true;
        if (const auto n = number_of_text({text, length})) {
            row_.cells.push_back({names_.index_of(path_), *n});
        } else {
            skip();
        }
        return true;
    }
    bool String(const char*, rj::SizeType, bool) {
        if (counts()) skip();
        return true;
    }
    bool StartObject() {
        if (lists_ > 0) return nest();
        if (in_list_ && levels_.size() == list_level_) {
            row_.clear();
            path_.clear();
        }
        levels_.push_back({path_.size(), row_.cells.size(), row_.skipped.size(), row_.nulls, false});
        return levels_.size() <= depth_max;
    }
    bool Key(const char* text, rj::SizeType length, bool) {
        if (lists_ > 0) return true;
        Level& level = levels_.back();
        const std::string_view key(text, length);
        // An object that says its type is one thing of that type: an image, a table, a histogram.
        if (key == "_type" && (levels_.size() > 1 || level.path > 0)) level.media = true;
        path_.resize(level.path);
        if (!path_.empty()) path_ += '/';
        path_ += key;
        return true;
    }
    bool EndObject(rj::SizeType) {
        if (lists_ > 0) return unnest();
        const Level level = levels_.back();
        levels_.pop_back();
        path_.resize(level.path);
        if (in_list_ && levels_.size() == list_level_) return (*each_)(row_);
        if (level.media) {
            row_.cells.resize(level.cells);
            row_.skipped.resize(level.skipped);
            row_.nulls = level.nulls;
            if (counts()) skip();
        }
        return true;
    }
    bool StartArray() {
        if (lists_ == 0 && each_ != nullptr && !in_list_ && levels_.size() == 1 && path_ == list_) {
            in_list_ = true;
            list_level_ = levels_.size();
            found_ = true;
            return true;
        }
        if (lists_ == 0 && counts()) skip();
        return nest();
    }
    bool EndArray(rj::SizeType) {
        if (lists_ > 0) return unnest();
        in_list_ = false;
        return true;
    }
    bool found() const { return found_; }

private:
    struct Level {
        std::size_t path, cells, skipped;
        std::uint64_t nulls;
        bool media;
    };

    // Whether a value here belongs to a row: not inside a list, and inside the list of rows when there is one.
    bool counts() const { return lists_ == 0 && !path_.empty() && (each_ == nullptr || (in_list_ && levels_.size() > list_level_)); }
    void skip() { row_.skipped.push_back(names_.index_of(path_)); }
    bool nest() { return ++lists_ + levels_.size() <= depth_max; }
    bool unnest() {
        --lists_;
        return true;
    }

    std::string_view list_;
    Names& names_;
    Row& row_;
    const std::function<bool(const Row&)>* each_;
    std::string path_;
    std::vector<Level> levels_;
    std::size_t lists_ = 0;  // containers open inside a list that is no row
    std::size_t list_level_ = 0;
    bool in_list_ = false;
    bool found_ = false;
};

bool parse(std::string_view json, Flattener& handler) {
    rj::MemoryStream stream(json.data(), json.size());
    rj::Reader reader;
    return !reader.Parse<flags>(stream, handler).IsError();
}

}  // namespace

bool flatten(std::string_view json, std::string_view prefix, Names& names, Row& row) {
    Flattener handler(prefix, {}, names, row, nullptr);
    return parse(json, handler);
}

bool flatten_list(std::string_view json, std::string_view list, Names& names, Row& row, const std::function<bool(const Row&)>& each) {
    Flattener handler({}, list, names, row, &each);
    return parse(json, handler) && handler.found();
}

std::string member_text(std::string_view json, std::string_view key, std::size_t bytes_max) {
    rj::Document document;
    document.Parse<rj::kParseIterativeFlag | rj::kParseFullPrecisionFlag | rj::kParseNanAndInfFlag>(json.data(), json.size());
    if (document.HasParseError() || !document.IsObject()) return {};
    const auto it = document.FindMember(rj::Value(key.data(), static_cast<rj::SizeType>(key.size())));
    if (it == document.MemberEnd()) return {};
    rj::StringBuffer text;
    rj::Writer<rj::StringBuffer> writer(text);
    if (!it->value.Accept(writer) || text.GetSize() > bytes_max) return {};  // a NaN is no JSON: then no configuration
    return {text.GetString(), text.GetSize()};
}

}  // namespace tally::import
