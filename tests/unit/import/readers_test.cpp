// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstring>

#include <boost/crc.hpp>

#include "tests/lib/rows_text.hpp"

using namespace tally;
using namespace tally::import;

namespace {

using Lines = std::vector<std::string>;

std::string f64(const char* name, double v) {
    char text[64];
    std::snprintf(text, sizeof text, "%s=f64/%llx", name, static_cast<unsigned long long>(of_f64(v).bits));
    return text;
}

// The same rows whatever the cuts (I2).
Lines rows_of(std::string_view bytes, std::size_t torn_expected = 0) {
    Lines first;
    for (const std::size_t step : {std::size_t{1}, std::size_t{3}, std::size_t{7}, bytes.size() + 1}) {
        const Opened opened = open_reader(bytes, true);
        REQUIRE_MESSAGE(opened.reader, opened.why);
        std::size_t torn = 0;
        const Lines lines = read_in_cuts(*opened.reader, bytes, step, &torn).lines;
        CHECK(torn == torn_expected);
        if (first.empty()) first = lines;
        CHECK(lines == first);
    }
    return first;
}

template <class T>
std::string raw(T v) {
    return std::string(reinterpret_cast<const char*>(&v), sizeof v);
}

std::uint32_t crc32c(std::string_view bytes) {
    boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
    crc.process_bytes(bytes.data(), bytes.size());
    const std::uint32_t c = crc.checksum();
    return ((c >> 15) | (c << 17)) + 0xA282EAD8U;
}

std::string event_record(const std::string& event) {
    const std::string length = raw(std::uint64_t{event.size()});
    return length + raw(crc32c(length)) + event + raw(crc32c(event));
}

std::string field(int number, const std::string& bytes) {
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

// step, tag, simple_value
std::string scalar_event(int step, const std::string& tag, float v) {
    const std::string value = field(1, tag) + std::string(1, 2 << 3 | 5) + raw(v);
    return std::string{2 << 3, static_cast<char>(step)} + field(5, field(1, value));
}

std::string fragment(char kind, const std::string& body) {
    boost::crc_32_type crc;
    crc.process_byte(static_cast<unsigned char>(kind));
    crc.process_bytes(body.data(), body.size());
    return raw(std::uint32_t{crc.checksum()}) + raw(static_cast<std::uint16_t>(body.size())) + kind + body;
}

std::string item(const std::string& key, const std::string& json) { return field(1, key) + std::string("\x82\x01") + static_cast<char>(json.size()) + json; }
std::string history(const std::string& key, const std::string& json) { return field(2, field(1, item("_step", "7")) + field(1, item(key, json))); }
const std::string wandb_head(":W&B\xE1\xBE\x00", 7);

}  // namespace

TEST_CASE("CSV: marks, comments, quotes, line ends, blank lines, empty cells, text") {
    CHECK(rows_of("\xEF\xBB\xBF# a comment\r\n\r\nstep,\"a,b\",c\r\r\n1,\"1.5\",x\r\n\r\n2,,\"two\nlines\"\r\n1,nan,-0.0") ==
          Lines{"1: " + f64("a,b", 1.5) + " [c]", "2: [c] nulls=1", "1: a,b=f64/7ff8000000000000 " + f64("c", -0.0)});
}

TEST_CASE("CSV: a torn last line is no row, a whole one without newline is") {
    CHECK(rows_of("step,a,b\n1,2,3\n2,3,4") == Lines{"1: " + f64("a", 2) + " " + f64("b", 3), "2: " + f64("a", 3) + " " + f64("b", 4)});
    CHECK(rows_of("step,a,b\n1,2,3\n2,3", 3).size() == 1);
    CHECK(rows_of("step,a,b\n1,2,3\n2,3,\"4", 6).size() == 1);
    CHECK(rows_of(std::string("step,a,b\n1,2,3\n2,3,4\0\0\0", 23), 8).size() == 1);
}

TEST_CASE("CSV: a row that does not fit the header is refused by name, a repeated header is no row") {
    const Lines rows = rows_of("step,a\n1,2\n1,2,3\nx,5\nstep,a\n3,4,\n");
    REQUIRE(rows.size() == 4);
    CHECK(rows[1].find("3 cells where the header has 2") != rows[1].npos);
    CHECK(rows[2].find("no whole number under step") != rows[2].npos);
    CHECK(rows[3] == "3: " + f64("a", 4));
}

TEST_CASE("CSV: the best step column that holds whole numbers serves; without any it is the row") {
    CHECK(rows_of("epoch\tTotalEnvInteracts\tx\n0\t4000\t1\n") == Lines{"4000: " + f64("epoch", 0) + " " + f64("x", 1)});
    CHECK(rows_of("step;epoch;x\n0.5;3;1\n") == Lines{"3: " + f64("step", 0.5) + " " + f64("x", 1)});
    CHECK(rows_of("x,y\n5,6\n5,6\n") == Lines{"0: " + f64("x", 5) + " " + f64("y", 6), "1: " + f64("x", 5) + " " + f64("y", 6)});
    CHECK(rows_of("#{\"t_start\": 1e9}\nr,l,t\n1,50,0.5\n1,25,0.6\n")[1].starts_with("75: "));
}

TEST_CASE("CSV: two columns of one name are two points, a headerless reading has its first line") {
    CHECK(rows_of("step,a,a\n1,2,3\n") == Lines{"1: " + f64("a", 2) + " " + f64("a", 3)});
    CHECK(rows_of("2026/01/01, 5 %, 7\n2026/01/01, 6 %, 8\n").size() == 2);
}

TEST_CASE("JSON: nested keys, lists, media, nulls, NaN, booleans, text in quotes") {
    CHECK(rows_of(R"({"step": 1, "a": {"b": 1.5, "c": [1, {"x": 2}]}, "t": "1", "n": null, "y": true, "m": {"path": "p", "size": 4, "_type": "image"}})"
                  "\n{\"step\": 2, \"a\": NaN, \"z\": -Infinity}\n") ==
          Lines{"1: " + f64("a/b", 1.5) + " y=bool/1 [a/c] [t] [m] nulls=1", "2: a=f64/7ff8000000000000 z=f64/fff0000000000000"});
}

TEST_CASE("JSON: what is no object is refused, what is torn waits, depth is bounded") {
    const Lines rows = rows_of("{\"step\": 1, \"a\": 1}\n[1]\n{\"a\": }\n{\"b\": 2}\n{\"step\": 4, \"a\": 9007199254740993}\n{\"step\": 5", 10);
    REQUIRE(rows.size() == 5);
    for (const std::size_t bad : {1U, 2U, 3U}) CHECK(rows[bad].find('(') != rows[bad].npos);
    CHECK(rows[4] == "4: a=i64/20000000000001");
    const std::string deep(100000, '[');
    CHECK(rows_of("{\"step\": 1, \"a\": 1}\n{\"a\": " + deep + "\n").size() == 2);
}

TEST_CASE("JSON: the configuration that Ray repeats is the run's, once") {
    const std::string text = R"({"training_iteration": 1, "timesteps_total": 10, "config": {"lr": 0.5, "x": [1]}, "r": 2})"
                             "\n"
                             R"({"training_iteration": 2, "timesteps_total": 20, "config": {"lr": 0.5, "x": [1]}, "r": 3})"
                             "\n";
    const Opened opened = open_reader(text, true);
    const RowsText rows = read_in_cuts(*opened.reader, text, text.size());
    CHECK(rows.configs == Lines{R"({"lr":0.5,"x":[1]})"});
    CHECK(rows.lines == Lines{"10: " + f64("training_iteration", 1) + " " + f64("r", 2), "20: " + f64("training_iteration", 2) + " " + f64("r", 3)});
}

TEST_CASE("a document counts for its log_history only; another document is no log") {
    CHECK(rows_of("{\n\"epoch\": 3,\n\"log_history\": [{\"step\": 5, \"loss\": 1}, 7, [1], {\"step\": 5, \"eval\": {\"loss\": 2}}],\n\"x\": 1}") ==
          Lines{"5: " + f64("loss", 1), "5: " + f64("eval/loss", 2)});
    CHECK_FALSE(open_reader("{\n\"lr\": 1\n}\n", true).reader);
    CHECK_FALSE(open_reader("{\"loss\": 1, \"_step\": 4}", true).reader);
}

TEST_CASE("event files: values, a torn record, a record that fails its checksum") {
    const std::string head = event_record(std::string("\x1A\x0D") + "brain.Event:2");
    const std::string one = event_record(scalar_event(1, "a", 0.5F));
    const std::string two = event_record(scalar_event(2, "a", 0.25F));
    CHECK(rows_of(head + one + two) == Lines{"1: a=f32/3f000000", "2: a=f32/3e800000"});
    CHECK(rows_of(head + one + two.substr(0, two.size() - 1), two.size() - 1) == Lines{"1: a=f32/3f000000"});
    CHECK(rows_of(head + one + std::string(64, '\0'), 64).size() == 1);
    std::string bad = one;
    bad[20] = static_cast<char>(bad[20] ^ 1);
    const Lines rows = rows_of(head + bad + two);
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].find("checksum") != rows[0].npos);
    CHECK(rows[1] == "2: a=f32/3e800000");
    std::string lost = two;
    lost[9] = static_cast<char>(lost[9] ^ 1);
    const std::string text = head + one + lost;
    const Opened opened = open_reader(text, true);
    CHECK(read_in_cuts(*opened.reader, text, text.size()).lines.size() == 1);
    CHECK_FALSE(opened.reader->broken().empty());
}

TEST_CASE("event files: a tensor of one number is a point with its own bits, any other is named") {
    const auto tensor = [](const std::string& tag, const std::string& body) { return event_record(std::string{2 << 3, 3} + field(5, field(1, field(1, tag) + field(8, body)))); };
    const std::string half = std::string{1 << 3, 19} + field(13, "\x80\x78");  // 0x3c00 = 1.0
    const std::string list = std::string{1 << 3, 1} + field(2, field(2, std::string{1 << 3, 2})) + field(4, raw(1.0F) + raw(2.0F));
    CHECK(rows_of(tensor("h", half) + tensor("l", list) + tensor("d", std::string{1 << 3, 2} + field(4, raw(0.1)))) ==
          Lines{"3: h=f16/3c00", "3: [l]", "3: " + f64("d", 0.1)});
}

TEST_CASE("wandb: records in fragments, media, damage passed over, zeros waited for") {
    const std::string record = history("loss", "0.5");
    const std::string media = history("img", R"({"_type":"image","size":3})");
    const std::string split = wandb_head + fragment(1, media) + fragment(2, record.substr(0, 5)) + fragment(3, record.substr(5, 1)) + fragment(4, record.substr(6));
    CHECK(rows_of(split) == Lines{"7: [img]", "7: " + f64("loss", 0.5)});
    CHECK(rows_of(split + std::string(100, '\0'), 100).size() == 2);
    std::string damaged = wandb_head + fragment(1, record);
    damaged[16] = static_cast<char>(damaged[16] ^ 1);
    damaged.resize(32768, '\0');
    const Lines rows = rows_of(damaged + fragment(1, record));
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].find("checksum") != rows[0].npos);
    CHECK(rows[1] == "7: " + f64("loss", 0.5));
}

TEST_CASE("what is no log is named") {
    for (const std::string& text : {std::string("hello world\n"), std::string("\x7F""ELF\x02\x01,", 7), std::string()}) {
        const Opened opened = open_reader(text, true);
        CHECK_FALSE(opened.reader);
        CHECK_FALSE(opened.why.empty());
    }
}
