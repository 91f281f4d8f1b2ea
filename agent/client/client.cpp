// SPDX-License-Identifier: Apache-2.0
//
// What  tallyman.h: runs, series, blocks, flush. Registration may allocate and lock; the log calls do neither.

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <new>

#include "agent/client/attacher.hpp"
#include "agent/client/cgroup.hpp"
#include "agent/client/convert.hpp"
#include "agent/client/wait_hook.hpp"
#include "agent/ring/create.hpp"
#include "agent/ring/names.hpp"

namespace {

using namespace tally;
using client::Attacher;
using client::ClientRing;
using client::clock_ns;

constexpr int series_max = 1 << 20;
constexpr int blocks_max = 4096;
constexpr std::uint64_t scalar_data_bytes = 256 * 1024;
constexpr std::uint32_t scalar_registry_bytes = 64 * 1024;
constexpr std::uint64_t memory_reserve = 4 << 20;
constexpr std::size_t text_bytes_max = 256;
constexpr std::size_t labels_bytes_max = 16 * 1024;

struct Text {  // u16 length + bytes, as the registry has them
    const char* bytes = "";
    std::size_t size = 0;
};
Text text_of(const char* s) { return s == nullptr ? Text{} : Text{s, std::strlen(s)}; }

struct Series {
    char* name = nullptr;
    int dtype = 0;
};
struct BlockDef {
    std::uint32_t metrics = 0;
    std::uint32_t env_first = 0;
    std::uint32_t env_count = 0;
    std::uint8_t* dtypes = nullptr;
    char** names = nullptr;
    std::uint64_t* widths_before = nullptr;  // bytes of one environment's values in the metrics before; [metrics] = all
    std::uint64_t frame_bytes = 0;  // one step, padded vectors
};
struct SeriesSlot {  // where a series lives in one producer's rings
    std::uint32_t ring = 0;
    std::uint32_t id = 0;
    bool known = false;
};

// One thread's producer.
struct Writer {
    Writer* next = nullptr;
    std::uint8_t uuid[16] = {};
    std::uint32_t attempt = 0;
    pid_t tid = 0;
    ClientRing** scalars = nullptr;
    std::uint32_t scalar_count = 0;
    std::uint32_t scalar_series = 0;  // registered in the newest scalar ring
    SeriesSlot* slots = nullptr;      // series_max of them, reserved memory that costs nothing until used
    ClientRing** blocks = nullptr;    // blocks_max
    void* claimed = nullptr;          // frame body of an open claim
    int claimed_block = -1;
    tally_at claimed_at{};
    std::uint64_t claimed_points = 0;
};

char last_open_error[512] = "";
unsigned fork_generation = 0;
std::uint64_t run_serials = 0;
pthread_once_t fork_once = PTHREAD_ONCE_INIT;

// A child must not keep its parent's socket open, or the parent's death would go unnoticed.
void in_child() {
    ++fork_generation;
    Attacher::close_inherited();
}
void watch_forks() { pthread_atfork(nullptr, nullptr, in_child); }

struct Cached {
    std::uint64_t serial;
    unsigned generation;
    Writer* writer;
};
thread_local Cached cached{0, 0, nullptr};

std::uint64_t round_up_pow2(std::uint64_t v) {
    std::uint64_t n = 1;
    while (n < v) n *= 2;
    return n;
}

void* zeroed(std::size_t bytes) { return ::calloc(1, bytes); }

}  // namespace

tally::client::WaitHook tally::client::wait_hook;

struct tally_run {
    std::uint64_t serial = 0;
    unsigned generation = 0;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    Attacher* attacher = nullptr;
    Writer* writers = nullptr;
    Series* series = nullptr;
    std::atomic<int> series_count{0};
    BlockDef* blocks = nullptr;
    std::atomic<int> block_count{0};
    bool disabled = false;
    int on_full = TALLY_FULL_BLOCK;
    std::int64_t block_timeout_ns = 1'000'000'000;
    std::int64_t attach_timeout_ns = 2'000'000'000;
    std::int64_t close_timeout_ns = 10'000'000'000;
    std::int64_t fork_step = INT64_MAX;
    std::int64_t opened_ns = 0;
    std::uint32_t producers = 0;
    char run_id[129] = {};
    char* project = nullptr;
    char* name = nullptr;
    char* role = nullptr;
    char* labels = nullptr;
    char* continues = nullptr;
    char socket[108] = {};
    char host[256] = {};
    char error[512] = {};
};

namespace {

// `sentence` with its one %s replaced, cut to what fits.
void compose(char (&out)[512], const char* sentence, const char* a) {
    const char* mark = std::strstr(sentence, "%s");
    const int before = static_cast<int>(mark == nullptr ? std::strlen(sentence) : static_cast<std::size_t>(mark - sentence));
    ::snprintf(out, sizeof out, "%.*s%s%s", before, sentence, a, mark == nullptr ? "" : mark + 2);
}

int fault(tally_run* run, int code, const char* sentence, const char* a = "") {
    compose(run->error, sentence, a);
    return code;
}

const char* from_env(const char* given, const char* variable) {
    if (given != nullptr) return given;
    const char* v = ::getenv(variable);
    return v != nullptr && v[0] != 0 ? v : nullptr;
}

bool run_id_ok(const char* id) { return ring::run_id_ok(id, std::strlen(id)); }

// What the agent accepts in a registry; anything else would cost the whole ring.
bool text_ok(const char* s, std::size_t max) {
    if (s == nullptr) return true;
    const std::size_t n = std::strlen(s);
    return n <= max && ring::utf8_ok(s, n, false);
}

bool uuid_text_ok(const char* s) {
    if (s == nullptr || s[0] == 0) return true;
    for (int i = 0; i < 36; ++i) {
        const char c = s[i];
        const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        if (dash ? c != '-' : !hex) return false;
    }
    return s[36] == 0;
}

// Open addressing over the names, so that 65,535 metrics take no square.
bool names_distinct(const char* const* names, std::uint32_t count) {
    const std::uint64_t slots = round_up_pow2(std::uint64_t{count} * 2);
    auto* table = static_cast<std::uint32_t*>(zeroed(slots * sizeof(std::uint32_t)));
    bool distinct = table != nullptr;
    for (std::uint32_t i = 0; i < count && distinct; ++i) {
        std::uint64_t h = 0xCBF29CE484222325ULL;
        for (const char* c = names[i]; *c != 0; ++c) h = (h ^ static_cast<unsigned char>(*c)) * 0x100000001B3ULL;
        std::uint64_t at = (h ^ (h >> 29)) & (slots - 1);
        while (table[at] != 0 && std::strcmp(names[table[at] - 1], names[i]) != 0) at = (at + 1) & (slots - 1);
        distinct = table[at] == 0;
        table[at] = i + 1;
    }
    ::free(table);
    return distinct;
}

void random_bytes(void* out, std::size_t n) {
    if (::getrandom(out, n, 0) != static_cast<ssize_t>(n)) ::abort();
}

void random_uuid(std::uint8_t (&out)[16]) {
    random_bytes(out, 16);
    out[6] = static_cast<std::uint8_t>((out[6] & 0x0FU) | 0x40U);
    out[8] = static_cast<std::uint8_t>((out[8] & 0x3FU) | 0x80U);
}

// ---- rings -------------------------------------------------------------------------------------------------------

std::size_t put16(std::uint8_t* out, std::size_t at, Text t) {
    const auto n = static_cast<std::uint16_t>(t.size);
    std::memcpy(out + at, &n, 2);
    std::memcpy(out + at + 2, t.bytes, t.size);
    return at + 2 + t.size;
}

bool register_producer(const tally_run* run, const Writer* w, ClientRing* r) {
    ring::RegistryProducer p{};
    p.run_created_ns = run->opened_ns;
    p.fork_step = run->fork_step;
    p.attempt = w->attempt;
    p.producers = run->producers;
    const Text texts[] = {text_of(run->run_id), text_of(run->project), text_of(run->name), text_of(run->role),
                          text_of(run->host),   text_of(run->labels),  text_of(run->continues)};
    std::size_t bytes = 0;
    for (const Text& t : texts) bytes += 2 + t.size;
    auto* body = static_cast<std::uint8_t*>(zeroed(bytes));
    if (body == nullptr) return false;
    std::size_t at = 0;
    for (const Text& t : texts) at = put16(body, at, t);
    const ring::Producer::Piece pieces[] = {{&p, sizeof p}, {body, bytes}};
    const bool ok = r->producer.append_registry(ring::RegistryKind::producer, pieces, 2);
    ::free(body);
    return ok;
}

// A ring's pages are touched at once: past the cgroup's limit the kernel kills the trainer, so this is asked before.
int check_memory(tally_run* run, std::uint64_t ring_bytes) {
    const client::Headroom left = client::cgroup_headroom();
    const std::uint64_t needed = ring_bytes + ring_bytes / 64 + memory_reserve;  // page tables, and room to go on
    if (left.bytes >= needed) return 0;
    char numbers[384];
    ::snprintf(numbers, sizeof numbers, "%llu MiB, and cgroup %s leaves %llu MiB", static_cast<unsigned long long>((needed >> 20) + 1),
               left.cgroup, static_cast<unsigned long long>(left.bytes >> 20));
    return fault(run, -ENOMEM, "the memory limit is near: a ring needs %s; raise the limit, or log fewer environments per block", numbers);
}

int make_ring(tally_run* run, Writer* w, ring::RingKind kind, std::uint64_t data, std::uint32_t registry, ClientRing** out) {
    if (const int near = check_memory(run, data + ring::control_bytes + registry); near != 0) return near;
    auto* r = new (std::nothrow) ClientRing;
    if (r == nullptr) return -ENOMEM;
    ring::CreateRequest request;
    request.kind = kind;
    request.data_bytes = data;
    request.registry_bytes = registry;
    random_uuid(request.ring_uuid);
    std::memcpy(request.producer_uuid, w->uuid, 16);
    request.pid = static_cast<std::uint32_t>(::getpid());
    request.tid = static_cast<std::uint32_t>(w->tid);
    request.opened_ns = clock_ns(CLOCK_REALTIME);
    const int rc = ring::create_ring(request, r->memfd, r->pages);
    if (rc != 0) {
        delete r;
        return fault(run, rc, rc == -EFBIG ? "the file size limit of this process (ulimit -f) is below the ring's size%s"
                                           : "no memory for a ring: the memory limit of this process or its cgroup is used up%s");
    }
    r->wake_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r->producer = ring::Producer(r->pages);
    if (r->wake_fd < 0 || !register_producer(run, w, r)) {
        ring::unmap_pages(r->pages);
        ::close(r->memfd);
        if (r->wake_fd >= 0) ::close(r->wake_fd);
        delete r;
        return fault(run, -EMFILE, "no descriptor for a ring (ulimit -n), or its registry is too small%s");
    }
    *out = r;
    return 0;
}

int refusal_errno(std::uint32_t code) {
    switch (static_cast<ring::Refusal>(code)) {
        case ring::Refusal::user_budget:
        case ring::Refusal::total_budget: return -ENOSPC;
        case ring::Refusal::memory: return -ENOMEM;
        default: return -EPERM;
    }
}

// A ring enters service; when the agent is there its answer is waited for.
int offer_ring(tally_run* run, ClientRing* r) {
    run->attacher->add(r);
    if (run->attacher->wait_answer(r, run->attach_timeout_ns) != 1) return 0;
    if (r->refusal == static_cast<std::uint32_t>(ring::Refusal::draining)) return 0;  // offered again to the next agent
    return fault(run, refusal_errno(r->refusal), "the agent refused the ring: %s", r->text);
}

int add_scalar_ring(tally_run* run, Writer* w) {
    ClientRing* r = nullptr;
    int rc = make_ring(run, w, ring::RingKind::scalar, scalar_data_bytes, scalar_registry_bytes, &r);
    if (rc != 0) return rc;
    auto** grown = static_cast<ClientRing**>(::realloc(w->scalars, sizeof(ClientRing*) * (w->scalar_count + 1)));
    if (grown == nullptr) return -ENOMEM;
    w->scalars = grown;
    w->scalars[w->scalar_count++] = r;
    w->scalar_series = 0;
    return offer_ring(run, r);
}

// ---- writers -----------------------------------------------------------------------------------------------------

void free_writer(Writer* w) {
    ::free(w->scalars);
    ::free(w->slots);
    ::free(w->blocks);
    ::free(w);
}

void free_block(BlockDef& b) {
    for (std::uint32_t m = 0; b.names != nullptr && m < b.metrics; ++m) ::free(b.names[m]);
    ::free(b.names);
    ::free(b.dtypes);
    ::free(b.widths_before);
    b = {};
}

int make_writer(tally_run* run, Writer** out) {
    auto* w = static_cast<Writer*>(zeroed(sizeof(Writer)));
    if (w == nullptr) return -ENOMEM;
    w->claimed_block = -1;
    random_uuid(w->uuid);
    w->tid = static_cast<pid_t>(::syscall(SYS_gettid));
    w->slots = static_cast<SeriesSlot*>(zeroed(sizeof(SeriesSlot) * series_max));
    w->blocks = static_cast<ClientRing**>(zeroed(sizeof(ClientRing*) * blocks_max));
    if (w->slots == nullptr || w->blocks == nullptr) {
        free_writer(w);
        return fault(run, -ENOMEM, "no memory for a producer%s");
    }
    const int rc = add_scalar_ring(run, w);
    if (w->scalar_count == 0) {
        free_writer(w);
        return rc;
    }
    // Also when its ring was refused: the run frees it, and the next agent may take it.
    w->next = run->writers;
    run->writers = w;
    *out = w;
    return rc;
}

// After a fork the parent's rings are not mapped here; the child starts over.
int restart_in_child(tally_run* run) {
    run->generation = fork_generation;
    run->writers = nullptr;  // the parent's: their rings are not mapped here, a few KiB stay allocated
    pthread_mutex_init(&run->mutex, nullptr);
    run->attacher = new (std::nothrow) Attacher;
    if (run->attacher == nullptr) return -ENOMEM;
    return run->attacher->start(run->socket);
}

int slow_writer(tally_run* run, Writer** out) {
    if (run->generation != fork_generation) {
        const int rc = restart_in_child(run);
        if (rc != 0) return rc;
    }
    pthread_mutex_lock(&run->mutex);
    const auto tid = static_cast<pid_t>(::syscall(SYS_gettid));
    Writer* found = nullptr;
    for (Writer* w = run->writers; w != nullptr; w = w->next)
        if (w->tid == tid) found = w;
    int rc = 0;
    if (found == nullptr) rc = make_writer(run, &found);
    pthread_mutex_unlock(&run->mutex);
    if (rc != 0) return rc;
    cached = {run->serial, fork_generation, found};
    *out = found;
    return 0;
}

inline int writer_of(tally_run* run, Writer** out) {
    if (cached.serial == run->serial && cached.generation == fork_generation) {
        *out = cached.writer;
        return 0;
    }
    return slow_writer(run, out);
}

// ---- records -----------------------------------------------------------------------------------------------------

// Waits for room, at most block_timeout; nullptr: there was none.
std::uint8_t* wait_for_room(const tally_run* run, ClientRing* r, std::uint64_t bytes) {
    const std::int64_t until = clock_ns(CLOCK_MONOTONIC) + run->block_timeout_ns;
    r->wake();
    for (;;) {
        const std::uint32_t seen = r->pages.control->consumer.progress.load(std::memory_order_acquire);
        std::uint8_t* at = r->producer.claim(bytes);
        const std::int64_t left = until - clock_ns(CLOCK_MONOTONIC);
        if (at != nullptr || left <= 0) return at;
        client::futex_wait(&r->pages.control->consumer.progress, seen, left);
    }
}

// Space for a record under the run's policy; nullptr: dropped (rc 0) or refused (rc).
std::uint8_t* claim(tally_run* run, ClientRing* r, std::uint64_t bytes, int* rc) {
    *rc = 0;
    std::uint8_t* at = r->producer.claim(bytes);
    if (at != nullptr) {
        r->no_space = false;
        return at;
    }
    if (run->on_full == TALLY_FULL_RAISE) {
        *rc = fault(run, -EAGAIN, "the ring is full%s");
        return nullptr;
    }
    if (run->on_full == TALLY_FULL_DROP || r->no_space) return nullptr;
    void* held = client::wait_hook.begin == nullptr ? nullptr : client::wait_hook.begin();
    at = wait_for_room(run, r, bytes);
    if (client::wait_hook.end != nullptr) client::wait_hook.end(held);
    if (at != nullptr) return at;
    r->no_space = true;
    return nullptr;
}

void publish(ClientRing* r, const ring::RecordMeta& meta) {
    r->producer.commit(meta);
    if (r->producer.agent_asleep()) {
        // The word stays 1 when the agent died asleep: one wake a millisecond, not one a call.
        const std::int64_t now = clock_ns(CLOCK_MONOTONIC);
        if (now - r->woke_ns > 1'000'000) {
            r->woke_ns = now;
            r->wake();
        }
    } else if (r->producer.passed_half()) {
        r->wake();
    }
}

ring::RecordMeta meta_of(const Writer* w, ring::RecordKind kind, const tally_at* at, std::uint64_t points) {
    ring::RecordMeta m;
    m.kind = kind;
    m.attempt = w->attempt;
    m.points = points;
    m.time_ns = at != nullptr && at->time_ns != 0 ? at->time_ns : clock_ns(CLOCK_REALTIME);
    m.has_rl_step = at != nullptr && at->has_rl_step != 0;
    m.rl_step = m.has_rl_step ? at->rl_step : 0;
    return m;
}

int dropped(tally_run*, ClientRing* r, int rc, std::uint32_t block, std::int64_t first, std::int64_t last, std::uint64_t points) {
    r->producer.count_drop(block, ring::DropReason::ring_full, first, last, points);
    return rc;
}

// ---- series ------------------------------------------------------------------------------------------------------

int register_series(tally_run* run, Writer* w, int series) {
    const Series& s = run->series[series];
    pthread_mutex_lock(&run->mutex);
    int rc = 0;
    for (int attempt = 0; attempt < 2; ++attempt) {
        ClientRing* r = w->scalars[w->scalar_count - 1];
        ring::RegistrySeries entry{};
        entry.series = w->scalar_series;
        entry.dtype = static_cast<std::uint8_t>(s.dtype);
        std::uint8_t name[2 + text_bytes_max];
        const std::size_t bytes = put16(name, 0, text_of(s.name));
        const ring::Producer::Piece pieces[] = {{&entry, sizeof entry}, {name, bytes}};
        if (r->producer.append_registry(ring::RegistryKind::series, pieces, 2)) {
            w->slots[series] = {w->scalar_count - 1, w->scalar_series++, true};
            break;
        }
        rc = add_scalar_ring(run, w);
        if (rc != 0) break;
    }
    pthread_mutex_unlock(&run->mutex);
    return rc;
}

inline int slot_of(tally_run* run, Writer* w, int series, SeriesSlot* out) {
    if (series < 0 || series >= run->series_count.load(std::memory_order_acquire)) return fault(run, -ENOENT, "unknown series%s");
    if (!w->slots[series].known) {
        const int rc = register_series(run, w, series);
        if (rc != 0) return rc;
    }
    *out = w->slots[series];
    return 0;
}

// ---- blocks ------------------------------------------------------------------------------------------------------

std::uint64_t vector_bytes(const BlockDef& b, std::uint32_t metric, std::uint64_t n) {
    return ring::padded(client::width_of(b.dtypes[metric]) * n);
}

int make_block_ring(tally_run* run, Writer* w, int block) {
    const BlockDef& b = run->blocks[block];
    std::uint64_t registry = sizeof(ring::RegistryHeader) * 2 + 4096 + labels_bytes_max + 4 * text_bytes_max;
    for (std::uint32_t m = 0; m < b.metrics; ++m) registry += 3 + std::strlen(b.names[m]);
    registry = (registry + 4095) / 4096 * 4096;
    std::uint64_t data = round_up_pow2(4 * (b.frame_bytes + sizeof(ring::RecordHeader) + sizeof(ring::FrameBody)));
    if (data < (1U << 20)) data = 1U << 20;
    if (data > ring::data_bytes_max) data = ring::data_bytes_max;
    if (registry > ring::registry_bytes_max) return fault(run, -E2BIG, "the names of this block are too long together%s");
    pthread_mutex_lock(&run->mutex);
    ClientRing* r = nullptr;
    int rc = make_ring(run, w, ring::RingKind::block, data, static_cast<std::uint32_t>(registry), &r);
    if (rc == 0) {
        r->block = static_cast<std::uint32_t>(block) + 1;
        ring::RegistryBlock entry{r->block, b.env_first, b.env_count, b.metrics};
        auto* names = static_cast<std::uint8_t*>(zeroed(registry));
        std::size_t at = 0;
        for (std::uint32_t m = 0; names != nullptr && m < b.metrics; ++m) {
            names[at] = b.dtypes[m];
            at = put16(names, at + 1, text_of(b.names[m]));
        }
        const ring::Producer::Piece pieces[] = {{&entry, sizeof entry}, {names, at}};
        if (names == nullptr || !r->producer.append_registry(ring::RegistryKind::block, pieces, 2)) rc = -ENOMEM;
        ::free(names);
        if (rc == 0) {
            w->blocks[block] = r;
            rc = offer_ring(run, r);
        }
    }
    pthread_mutex_unlock(&run->mutex);
    return rc;
}

int block_of(tally_run* run, Writer* w, int block, ClientRing** out) {
    if (block < 0 || block >= run->block_count.load(std::memory_order_acquire)) return fault(run, -ENOENT, "unknown block%s");
    if (w->blocks[block] == nullptr) {
        const int rc = make_block_ring(run, w, block);
        if (rc != 0) return rc;
    }
    *out = w->blocks[block];
    if ((*out)->state.load(std::memory_order_relaxed) == 3 && (*out)->refusal != static_cast<std::uint32_t>(ring::Refusal::draining))
        return fault(run, -ECANCELED, "the agent refused this block's ring: %s", (*out)->text);
    return 0;
}

// The part of a frame that one record carries.
struct Part {
    std::uint32_t metric_first, metrics, step_first, steps;
};

std::uint64_t part_bytes(const BlockDef& b, const Part& p, std::uint64_t n, std::uint32_t rows) {
    std::uint64_t bytes = 0;
    for (std::uint32_t m = p.metric_first; m < p.metric_first + p.metrics; ++m) bytes += vector_bytes(b, m, n);
    return sizeof(ring::FrameBody) + ring::padded(4ULL * rows) + bytes * p.steps;
}

std::uint8_t* write_head(std::uint8_t* at, const ring::FrameBody& head, const std::uint32_t* rows) {
    std::memcpy(at, &head, sizeof head);
    at += sizeof head;
    if (head.rows == 0) return at;
    const std::uint64_t bytes = 4ULL * head.rows;
    std::memset(at + ring::padded(bytes) - 8, 0, 8);
    std::memcpy(at, rows, bytes);
    return at + ring::padded(bytes);
}

// The value source of one metric and step of a frame.
struct Source {
    const void* data;
    int dtype;
    std::int64_t stride;
};
Source source_of(const BlockDef& b, const tally_frame& f, std::uint32_t metric, std::uint32_t step, std::uint64_t n) {
    if (f.matrix != nullptr) {
        const std::uint64_t at = (step * b.widths_before[b.metrics] + b.widths_before[metric]) * n;
        return {static_cast<const std::uint8_t*>(f.matrix) + at, b.dtypes[metric], 0};
    }
    const tally_values& v = f.values[metric];
    const int dtype = v.dtype == 0 ? b.dtypes[metric] : v.dtype;
    const std::int64_t env_stride = v.env_stride == 0 ? static_cast<std::int64_t>(client::width_of(dtype)) : v.env_stride;
    const std::int64_t step_stride = v.step_stride == 0 ? env_stride * static_cast<std::int64_t>(n) : v.step_stride;
    return {static_cast<const std::uint8_t*>(v.data) + static_cast<std::int64_t>(step) * step_stride, dtype, v.env_stride};
}

int log_part(tally_run* run, Writer* w, ClientRing* r, int block, const tally_frame& f, const Part& p, std::uint64_t n) {
    const BlockDef& b = run->blocks[block];
    const std::int64_t stride = f.step_stride == 0 ? 1 : f.step_stride;
    const std::int64_t first = f.step + static_cast<std::int64_t>(p.step_first) * stride;
    const std::int64_t last = first + static_cast<std::int64_t>(p.steps - 1) * stride;
    const std::uint64_t points = static_cast<std::uint64_t>(p.steps) * p.metrics * n;
    const std::uint32_t rows = f.row_list != nullptr ? f.rows : 0;
    int rc = 0;
    std::uint8_t* at = claim(run, r, part_bytes(b, p, n, rows), &rc);
    if (at == nullptr) return dropped(run, r, rc, r->block, first, last, points);
    const ring::FrameBody head{r->block, p.metric_first, p.metrics, p.steps, first, p.steps == 1 ? 1 : stride, rows, f.row_list != nullptr ? 1U : 0U};
    at = write_head(at, head, f.row_list);
    for (std::uint32_t s = 0; s < p.steps; ++s) {
        for (std::uint32_t m = p.metric_first; m < p.metric_first + p.metrics; ++m) {
            const Source source = source_of(b, f, m, p.step_first + s, n);
            const std::uint64_t bytes = vector_bytes(b, m, n);
            if (bytes != 0) std::memset(at + bytes - 8, 0, 8);
            client::convert(source.data, source.dtype, source.stride, n, b.dtypes[m], at);
            at += bytes;
        }
    }
    publish(r, meta_of(w, ring::RecordKind::frame, &f.at, points));
    return 0;
}

int check_frame(tally_run* run, const BlockDef& b, const tally_frame* f, std::uint64_t* n) {
    if (f == nullptr || f->size < sizeof(tally_frame) || f->step_stride < 0) return fault(run, -EINVAL, "tally_frame makes no sense%s");
    const std::int64_t stride = f->step_stride == 0 ? 1 : f->step_stride;
    const std::int64_t steps = f->steps == 0 ? 1 : f->steps;
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(steps - 1, stride, &reach) || __builtin_add_overflow(f->step, reach, &reach))
        return fault(run, -EINVAL, "steps overflow 64 bits%s");
    *n = b.env_count;
    if (f->row_list == nullptr) return 0;
    *n = f->rows;
    for (std::uint32_t i = 0; i < f->rows; ++i)
        if (f->row_list[i] >= b.env_count) return fault(run, -EINVAL, "the row list names an environment beyond the block%s");
    return 0;
}

// ---- waiting -----------------------------------------------------------------------------------------------------

std::uint64_t level_word(const ClientRing* r, int level) {
    const ring::ConsumerPart& c = r->pages.control->consumer;
    if (level == TALLY_DISK) return c.tail.load(std::memory_order_acquire);
    if (level == TALLY_RECEIVER) return c.received.load(std::memory_order_acquire);
    return c.stored.load(std::memory_order_acquire);
}

int wait_ring(ClientRing* r, int level, std::uint64_t target, std::int64_t until) {
    for (;;) {
        const std::uint32_t seen = r->pages.control->consumer.progress.load(std::memory_order_acquire);
        if (level_word(r, level) >= target) return 0;
        const std::int64_t left = until - clock_ns(CLOCK_MONOTONIC);
        if (left <= 0) return -ETIMEDOUT;
        client::futex_wait(&r->pages.control->consumer.progress, seen, left < 100'000'000 ? left : 100'000'000);
    }
}

template <class F>
void each_ring(tally_run* run, F&& f) {
    for (Writer* w = run->writers; w != nullptr; w = w->next) {
        for (std::uint32_t i = 0; i < w->scalar_count; ++i) f(w->scalars[i]);
        for (int i = 0; i < run->block_count.load(); ++i)
            if (w->blocks[i] != nullptr) f(w->blocks[i]);
    }
}

void ask(ClientRing* r, int level) {
    ring::ProducerPart& p = r->pages.control->producer;
    p.flush_asked.fetch_add(1, std::memory_order_relaxed);
    if (level == TALLY_STORE) p.store_asked.fetch_add(1, std::memory_order_relaxed);
    r->wake();
}

int wait_all(tally_run* run, int level, std::int64_t timeout_ns) {
    const std::int64_t until = clock_ns(CLOCK_MONOTONIC) + timeout_ns;
    each_ring(run, [level](ClientRing* r) { ask(r, level); });
    int rc = 0;
    each_ring(run, [&](ClientRing* r) {
        const std::uint64_t target = r->pages.control->producer.head.load(std::memory_order_acquire);
        if (wait_ring(r, level, target, until) != 0) rc = -ETIMEDOUT;
    });
    return rc;
}

int log_event(tally_run* run, Writer* w, Text kind, Text key, Text text, std::int64_t time_ns) {
    ClientRing* r = w->scalars[0];
    const std::uint64_t bytes = sizeof(ring::EventBody) + kind.size + key.size + text.size;
    if (bytes > r->producer.body_bytes_max()) {
        r->producer.count_drop(0, ring::DropReason::record_too_big, 0, 0, 0);
        return fault(run, -E2BIG, "an event is at most 64 KiB%s");
    }
    int rc = 0;
    std::uint8_t* at = claim(run, r, bytes, &rc);
    if (at == nullptr) return dropped(run, r, rc, 0, 0, 0, 0);
    const ring::EventBody head{static_cast<std::uint16_t>(kind.size), static_cast<std::uint16_t>(key.size), static_cast<std::uint32_t>(text.size)};
    std::memcpy(at, &head, sizeof head);
    at += sizeof head;
    for (const Text& t : {kind, key, text}) {
        std::memcpy(at, t.bytes, t.size);
        at += t.size;
    }
    const tally_at when{time_ns, 0, 0};
    publish(r, meta_of(w, ring::RecordKind::event, &when, 0));
    return 0;
}

// ---- opening -----------------------------------------------------------------------------------------------------

int open_fault(int code, const char* sentence, const char* a = "") {
    compose(last_open_error, sentence, a);
    return code;
}

char* copy(const char* s) { return ::strdup(s == nullptr ? "" : s); }

int fill_run(tally_run* run, const tally_run_options& o) {
    const char* mode = from_env(nullptr, "TALLYMAN_MODE");
    const char* off = from_env(nullptr, "TALLYMAN_DISABLED");
    run->disabled = o.mode == TALLY_MODE_DISABLED ||
                    (o.mode == TALLY_MODE_DEFAULT && ((mode != nullptr && std::strcmp(mode, "disabled") == 0) ||
                                                      (off != nullptr && std::strcmp(off, "0") != 0)));
    const char* socket = from_env(o.socket, "TALLYMAN_SOCKET");
    if (socket == nullptr) socket = "/run/tallyman/agent.sock";
    if (std::strlen(socket) >= sizeof run->socket) return open_fault(-EINVAL, "socket path is too long: %s", socket);
    std::strcpy(run->socket, socket);
    const char* id = from_env(o.run_id, "TALLYMAN_RUN_ID");
    if (id != nullptr && !run_id_ok(id)) return open_fault(-EINVAL, "run id must be 1-128 of [A-Za-z0-9_.-]: %s", id);
    if (id != nullptr) {
        std::strcpy(run->run_id, id);
    } else {
        std::uint8_t r[12];
        random_bytes(r, sizeof r);
        for (int i = 0; i < 12; ++i) run->run_id[i] = "abcdefghijkmnpqrstuvwxyz23456789"[r[i] % 32];
    }
    const char* project = from_env(o.project, "TALLYMAN_PROJECT");
    const char* name = from_env(o.name, "TALLYMAN_NAME");
    const char* role = o.role != nullptr ? o.role : from_env(nullptr, "RANK");
    if (!text_ok(project, text_bytes_max) || !text_ok(name, text_bytes_max) || !text_ok(role, text_bytes_max) ||
        !text_ok(o.labels_json, labels_bytes_max) || !uuid_text_ok(o.continues))
        return open_fault(-EINVAL, "project, name, role, labels or continues: too long, not UTF-8, with control characters, or no UUID%s");
    run->project = copy(project);
    run->name = copy(name);
    run->role = copy(role);
    run->labels = copy(o.labels_json);
    run->continues = copy(o.continues);
    run->fork_step = o.fork_step;
    run->producers = o.producers;
    run->on_full = o.on_full;
    if (o.block_timeout_ns > 0) run->block_timeout_ns = o.block_timeout_ns;
    if (o.attach_timeout_ns > 0) run->attach_timeout_ns = o.attach_timeout_ns;
    if (o.close_timeout_ns != 0) run->close_timeout_ns = o.close_timeout_ns;
    run->opened_ns = clock_ns(CLOCK_REALTIME);
    ::gethostname(run->host, sizeof run->host - 1);
    run->series = static_cast<Series*>(zeroed(sizeof(Series) * series_max));
    run->blocks = static_cast<BlockDef*>(zeroed(sizeof(BlockDef) * blocks_max));
    return run->series != nullptr && run->blocks != nullptr ? 0 : open_fault(-ENOMEM, "no memory%s");
}

void free_run(tally_run* run) {
    if (run->generation != fork_generation) {  // nothing of the parent's threads and mappings exists in this child
        run->attacher = nullptr;
        run->writers = nullptr;
    }
    if (run->attacher != nullptr) {
        run->attacher->stop();
        delete run->attacher;
    }
    each_ring(run, [](ClientRing* r) {
        ring::unmap_pages(r->pages);
        ::close(r->memfd);
        ::close(r->wake_fd);
        delete r;
    });
    for (Writer* w = run->writers; w != nullptr;) {
        Writer* next = w->next;
        free_writer(w);
        w = next;
    }
    for (int i = 0; i < run->series_count.load(); ++i) ::free(run->series[i].name);
    for (int i = 0; i < run->block_count.load(); ++i) free_block(run->blocks[i]);
    for (char* s : {run->project, run->name, run->role, run->labels, run->continues}) ::free(s);
    ::free(run->series);
    ::free(run->blocks);
    delete run;
}

int write_close(tally_run* run, Writer* w, int exit_code) {
    for (int i = 0; i < run->block_count.load(); ++i)
        if (w->blocks[i] != nullptr) w->blocks[i]->producer.close();
    for (std::uint32_t i = 1; i < w->scalar_count; ++i) w->scalars[i]->producer.close();
    ClientRing* r = w->scalars[0];
    std::uint32_t used = 1;  // this one, by the record to come
    for (int i = 0; i < run->block_count.load(); ++i) used += w->blocks[i] != nullptr && w->blocks[i]->producer.records() != 0 ? 1 : 0;
    for (std::uint32_t i = 1; i < w->scalar_count; ++i) used += w->scalars[i]->producer.records() != 0 ? 1 : 0;
    int rc = 0;
    std::uint8_t* at = claim(run, r, sizeof(ring::CloseBody), &rc);
    if (at != nullptr) {
        const ring::CloseBody body{exit_code, used};
        std::memcpy(at, &body, sizeof body);
        publish(r, meta_of(w, ring::RecordKind::close, nullptr, 0));
    }
    r->producer.close();
    return at != nullptr ? 0 : -ETIMEDOUT;
}

}  // namespace

extern "C" {

TALLY_API int tally_run_open(const tally_run_options* options, tally_run** out) {
    if (options == nullptr || out == nullptr || options->size < sizeof(tally_run_options))
        return open_fault(-EINVAL, "tally_run_options: use TALLY_RUN_OPTIONS_INIT%s");
    *out = nullptr;
    pthread_once(&fork_once, watch_forks);
    auto* run = new (std::nothrow) tally_run;
    if (run == nullptr) return open_fault(-ENOMEM, "no memory%s");
    run->serial = __atomic_add_fetch(&run_serials, 1, __ATOMIC_RELAXED);
    run->generation = fork_generation;
    int rc = fill_run(run, *options);
    if (rc == 0 && !run->disabled) {
        run->attacher = new (std::nothrow) Attacher;
        rc = run->attacher == nullptr ? -ENOMEM : run->attacher->start(run->socket);
        Writer* w = nullptr;
        if (rc == 0) rc = writer_of(run, &w);
        if (rc == 0 && options->config_json != nullptr)
            log_event(run, w, text_of("config"), Text{}, text_of(options->config_json), 0);  // too big: counted, not fatal
        if (rc != 0) open_fault(rc, "%s", run->error[0] != 0 ? run->error : "cannot start the helper thread");
    }
    if (rc != 0) {
        free_run(run);
        return rc;
    }
    *out = run;
    return 0;
}

TALLY_API int tally_run_close(tally_run* run, int exit_code) {
    int rc = 0;
    if (!run->disabled && run->generation == fork_generation) {
        for (Writer* w = run->writers; w != nullptr; w = w->next)
            if (write_close(run, w, exit_code) != 0) rc = -ETIMEDOUT;
        each_ring(run, [](ClientRing* r) { r->wake(); });
        if (run->close_timeout_ns > 0 && wait_all(run, TALLY_DISK, run->close_timeout_ns) != 0) rc = -ETIMEDOUT;
    }
    free_run(run);
    return rc;
}

TALLY_API const char* tally_run_id(const tally_run* run) { return run->run_id; }
TALLY_API const char* tally_last_error(const tally_run* run) { return run == nullptr ? last_open_error : run->error; }

TALLY_API int tally_series(tally_run* run, const char* name, int dtype) {
    if (client::width_of(dtype) == 0) return fault(run, -EINVAL, "unknown dtype%s");
    if (name == nullptr || name[0] == 0 || !text_ok(name, text_bytes_max))
        return fault(run, -EINVAL, "a metric name is 1-256 bytes of UTF-8 without control characters%s");
    pthread_mutex_lock(&run->mutex);
    const int count = run->series_count.load();
    int id = -1;
    for (int i = 0; i < count && id < 0; ++i)
        if (run->series[i].dtype == dtype && std::strcmp(run->series[i].name, name) == 0) id = i;
    if (id < 0 && count < series_max) {
        run->series[count] = {::strdup(name), dtype};
        id = count;
        run->series_count.store(count + 1, std::memory_order_release);
    }
    pthread_mutex_unlock(&run->mutex);
    return id >= 0 ? id : fault(run, -E2BIG, "too many series%s");
}

TALLY_API int tally_log_many(tally_run* run, int64_t step, const tally_scalar* values, size_t count, const tally_at* at) {
    if (run->disabled || count == 0) return 0;
    Writer* w = nullptr;
    int rc = writer_of(run, &w);
    if (rc != 0) return rc;
    // Series of one call may live in several rings when a registry is full: one record per ring, in order.
    for (size_t i = 0; i < count;) {
        SeriesSlot slot{};
        if ((rc = slot_of(run, w, static_cast<int>(values[i].series), &slot)) != 0) return rc;
        size_t n = 1;
        SeriesSlot other{};
        while (i + n < count && n < 1024) {
            if ((rc = slot_of(run, w, static_cast<int>(values[i + n].series), &other)) != 0) return rc;
            if (other.ring != slot.ring) break;
            ++n;
        }
        ClientRing* r = w->scalars[slot.ring];
        std::uint8_t* to = claim(run, r, sizeof(ring::ScalarBody) + n * sizeof(ring::ScalarValue), &rc);
        if (to == nullptr) {
            r->producer.count_drop(0, ring::DropReason::ring_full, step, step, n);
            if (rc != 0) return rc;
        } else {
            const ring::ScalarBody head{step, static_cast<std::uint32_t>(n), 0};
            std::memcpy(to, &head, sizeof head);
            to += sizeof head;
            for (size_t k = 0; k < n; ++k, to += sizeof(ring::ScalarValue)) {
                const ring::ScalarValue v{w->slots[values[i + k].series].id, 0, values[i + k].bits};
                std::memcpy(to, &v, sizeof v);
            }
            publish(r, meta_of(w, ring::RecordKind::scalars, at, n));
        }
        i += n;
    }
    return 0;
}

TALLY_API int tally_log_bits_at(tally_run* run, int series, int64_t step, uint64_t bits, const tally_at* at) {
    if (series < 0) return fault(run, -ENOENT, "unknown series%s");
    const tally_scalar one{static_cast<std::uint32_t>(series), 0, bits};
    return tally_log_many(run, step, &one, 1, at);
}
TALLY_API int tally_log_f64_at(tally_run* run, int series, int64_t step, double value, const tally_at* at) {
    if (series < 0 || series >= run->series_count.load(std::memory_order_acquire)) return fault(run, -ENOENT, "unknown series%s");
    return tally_log_bits_at(run, series, step, client::bits_from_f64(run->series[series].dtype, value), at);
}
TALLY_API int tally_log_i64_at(tally_run* run, int series, int64_t step, int64_t value, const tally_at* at) {
    if (series < 0 || series >= run->series_count.load(std::memory_order_acquire)) return fault(run, -ENOENT, "unknown series%s");
    return tally_log_bits_at(run, series, step, client::bits_from_i64(run->series[series].dtype, value), at);
}
TALLY_API int tally_log_f64(tally_run* run, int series, int64_t step, double value) { return tally_log_f64_at(run, series, step, value, nullptr); }
TALLY_API int tally_log_i64(tally_run* run, int series, int64_t step, int64_t value) { return tally_log_i64_at(run, series, step, value, nullptr); }
TALLY_API int tally_log_bits(tally_run* run, int series, int64_t step, uint64_t bits) { return tally_log_bits_at(run, series, step, bits, nullptr); }

TALLY_API int tally_block_open(tally_run* run, const tally_block_options* o) {
    if (o == nullptr || o->size < sizeof(tally_block_options) || o->metrics == 0 || o->metrics > ring::metrics_max || o->names == nullptr ||
        o->env_count == 0 || o->env_count > ring::envs_max || o->env_first > UINT32_MAX - (o->env_count - 1))
        return fault(run, -EINVAL, "a block needs 1-65535 metrics and 1-2^30 environments%s");
    BlockDef b{};
    b.metrics = o->metrics;
    b.env_first = o->env_first;
    b.env_count = o->env_count;
    b.dtypes = static_cast<std::uint8_t*>(zeroed(o->metrics));
    b.names = static_cast<char**>(zeroed(sizeof(char*) * o->metrics));
    b.widths_before = static_cast<std::uint64_t*>(zeroed(sizeof(std::uint64_t) * (std::uint64_t{o->metrics} + 1)));
    const auto give_up = [&b, run](int code, const char* sentence) {
        free_block(b);
        return fault(run, code, sentence);
    };
    if (b.dtypes == nullptr || b.names == nullptr || b.widths_before == nullptr) return give_up(-ENOMEM, "no memory for a block%s");
    for (std::uint32_t m = 0; m < o->metrics; ++m) {
        b.dtypes[m] = o->dtypes != nullptr ? o->dtypes[m] : static_cast<std::uint8_t>(o->dtype);
        if (client::width_of(b.dtypes[m]) == 0) return give_up(-EINVAL, "unknown dtype%s");
        if (o->names[m] == nullptr || o->names[m][0] == 0 || !text_ok(o->names[m], text_bytes_max))
            return give_up(-EINVAL, "a metric name is 1-256 bytes of UTF-8 without control characters%s");
        b.names[m] = ::strdup(o->names[m]);
        b.widths_before[m + 1] = b.widths_before[m] + client::width_of(b.dtypes[m]);
        b.frame_bytes += vector_bytes(b, m, b.env_count);
    }
    if (!names_distinct(b.names, b.metrics)) return give_up(-EINVAL, "a metric is named twice in this block%s");
    pthread_mutex_lock(&run->mutex);
    const int id = run->block_count.load();
    if (id < blocks_max) {
        run->blocks[id] = b;
        run->block_count.store(id + 1, std::memory_order_release);
    }
    pthread_mutex_unlock(&run->mutex);
    if (id >= blocks_max) return give_up(-E2BIG, "too many blocks%s");
    if (run->disabled) return id;
    Writer* w = nullptr;
    ClientRing* r = nullptr;
    int rc = writer_of(run, &w);
    if (rc == 0) rc = block_of(run, w, id, &r);
    return rc == 0 ? id : rc;
}

TALLY_API int tally_block_log(tally_run* run, int block, const tally_frame* frame) {
    if (run->disabled) return 0;
    Writer* w = nullptr;
    ClientRing* r = nullptr;
    int rc = writer_of(run, &w);
    if (rc == 0) rc = block_of(run, w, block, &r);
    if (rc != 0) return rc;
    const BlockDef& b = run->blocks[block];
    std::uint64_t n = 0;
    if ((rc = check_frame(run, b, frame, &n)) != 0) return rc;
    if (frame->matrix == nullptr && frame->values == nullptr) return fault(run, -EINVAL, "a frame needs a matrix or values%s");
    if (w->claimed_block == block) return fault(run, -EBUSY, "a claim is open on this block%s");
    const std::uint32_t steps = frame->steps == 0 ? 1 : frame->steps;
    const std::uint32_t rows = frame->row_list != nullptr ? frame->rows : 0;
    const std::uint64_t max = r->producer.body_bytes_max();
    // By steps first, then by metrics.
    Part whole{0, b.metrics, 0, 1};
    const std::uint64_t overhead = part_bytes(b, {0, 0, 0, 0}, n, rows);
    const std::uint64_t one_step = part_bytes(b, whole, n, rows) - overhead;
    if (overhead + one_step <= max) {
        const auto per = static_cast<std::uint32_t>(one_step == 0 ? steps : (max - overhead) / one_step);
        for (std::uint32_t s = 0; s < steps; s += per) {
            const Part p{0, b.metrics, s, s + per <= steps ? per : steps - s};
            if ((rc = log_part(run, w, r, block, *frame, p, n)) != 0) return rc;
        }
        return 0;
    }
    for (std::uint32_t s = 0; s < steps; ++s) {
        for (std::uint32_t m = 0; m < b.metrics;) {
            Part p{m, 1, s, 1};
            if (part_bytes(b, p, n, rows) > max) {
                const std::int64_t stride = frame->step_stride == 0 ? 1 : frame->step_stride;
                const std::uint64_t left = (std::uint64_t{steps - s} * b.metrics - m) * n;  // all that this call still held
                r->producer.count_drop(r->block, ring::DropReason::record_too_big, frame->step + s * stride,
                                       frame->step + (steps - 1) * stride, left);
                return fault(run, -E2BIG, "one metric of this block does not fit a quarter of the largest ring%s");
            }
            while (m + p.metrics < b.metrics && part_bytes(b, {m, p.metrics + 1, s, 1}, n, rows) <= max) ++p.metrics;
            if ((rc = log_part(run, w, r, block, *frame, p, n)) != 0) return rc;
            m += p.metrics;
        }
    }
    return 0;
}

TALLY_API int tally_block_log_matrix(tally_run* run, int block, int64_t step, const void* matrix) {
    tally_frame f = TALLY_FRAME_INIT;
    f.step = step;
    f.matrix = matrix;
    return tally_block_log(run, block, &f);
}

TALLY_API int tally_block_claim(tally_run* run, int block, const tally_frame* frame, void** values) {
    if (run->disabled) return fault(run, -ECANCELED, "disabled%s");
    Writer* w = nullptr;
    ClientRing* r = nullptr;
    int rc = writer_of(run, &w);
    if (rc == 0) rc = block_of(run, w, block, &r);
    if (rc != 0) return rc;
    if (w->claimed_block >= 0) return fault(run, -EBUSY, "a claim is open%s");
    const BlockDef& b = run->blocks[block];
    std::uint64_t n = 0;
    if ((rc = check_frame(run, b, frame, &n)) != 0) return rc;
    const std::uint32_t rows = frame->row_list != nullptr ? frame->rows : 0;
    const Part p{0, b.metrics, 0, 1};
    const std::uint64_t bytes = part_bytes(b, p, n, rows);
    if (bytes > r->producer.body_bytes_max()) return fault(run, -E2BIG, "the frame is larger than a quarter of its ring; use tally_block_log%s");
    std::uint8_t* at = claim(run, r, bytes, &rc);
    if (at == nullptr) {
        dropped(run, r, rc, r->block, frame->step, frame->step, b.metrics * n);
        return rc != 0 ? rc : fault(run, -EAGAIN, "the ring is full%s");
    }
    const ring::FrameBody head{r->block, 0, b.metrics, 1, frame->step, 1, rows, frame->row_list != nullptr ? 1U : 0U};
    at = write_head(at, head, frame->row_list);
    for (std::uint32_t m = 0; m < b.metrics; ++m) {
        const std::uint64_t size = vector_bytes(b, m, n);
        if (size != 0) std::memset(at, 0, size);
        values[m] = at;
        at += size;
    }
    w->claimed_block = block;
    w->claimed_at = frame->at;
    w->claimed_points = b.metrics * n;
    return 0;
}

TALLY_API int tally_block_commit(tally_run* run, int block) {
    Writer* w = nullptr;
    const int rc = writer_of(run, &w);
    if (rc != 0) return rc;
    if (w->claimed_block != block) return fault(run, -EINVAL, "no claim is open on this block%s");
    w->claimed_block = -1;
    publish(w->blocks[block], meta_of(w, ring::RecordKind::frame, &w->claimed_at, w->claimed_points));
    return 0;
}

TALLY_API int tally_block_abort(tally_run* run, int block) {
    Writer* w = nullptr;
    const int rc = writer_of(run, &w);
    if (rc != 0) return rc;
    if (w->claimed_block != block) return fault(run, -EINVAL, "no claim is open on this block%s");
    w->claimed_block = -1;
    w->blocks[block]->producer.abort();
    return 0;
}

TALLY_API int tally_episodes(tally_run* run, int64_t step, int64_t step_stride, size_t count, const uint32_t* env,
                             const int64_t* episode, const int64_t* length, const double* ret, const tally_at* at) {
    if (run->disabled || count == 0) return 0;
    Writer* w = nullptr;
    int rc = writer_of(run, &w);
    if (rc != 0) return rc;
    const std::int64_t stride = step_stride == 0 ? 1 : step_stride;
    if (stride < 1) return fault(run, -EINVAL, "step_stride must be at least 1%s");
    for (size_t i = 0; i < count; ++i) {
        std::int64_t reach = 0;
        if (length[i] < 0 || length[i] > (int64_t{1} << 40) || __builtin_mul_overflow(length[i], stride, &reach) ||
            __builtin_sub_overflow(step, reach, &reach))
            return fault(run, -EINVAL, "an episode's length is 0 to 2^40, and its first step fits 64 bits%s");
    }
    ClientRing* r = w->scalars[0];
    for (size_t i = 0; i < count;) {
        const size_t n = count - i < 2000 ? count - i : 2000;  // 56 KB: below a quarter of a scalar ring
        const std::uint64_t env_bytes = ring::padded(4 * n);
        std::uint8_t* to = claim(run, r, sizeof(ring::EpisodeBody) + env_bytes + 24 * n, &rc);
        if (to == nullptr) {
            r->producer.count_drop(0, ring::DropReason::ring_full, step, step, 0);
            if (rc != 0) return rc;
        } else {
            const ring::EpisodeBody head{step, stride, static_cast<std::uint32_t>(n), 0};
            std::memcpy(to, &head, sizeof head);
            to += sizeof head;
            std::memset(to + env_bytes - 8, 0, 8);
            std::memcpy(to, env + i, 4 * n);
            to += env_bytes;
            std::memcpy(to, episode + i, 8 * n);
            std::memcpy(to + 8 * n, length + i, 8 * n);
            std::memcpy(to + 16 * n, ret + i, 8 * n);
            publish(r, meta_of(w, ring::RecordKind::episodes, at, 0));
        }
        i += n;
    }
    return 0;
}

TALLY_API int tally_event(tally_run* run, const char* kind, const char* key, const char* text, size_t text_bytes, int64_t time_ns) {
    if (kind == nullptr || kind[0] == 0 || !text_ok(kind, text_bytes_max) || !text_ok(key, text_bytes_max))
        return fault(run, -EINVAL, "an event's kind and key are at most 256 bytes without control characters%s");
    if (run->disabled) return 0;
    Writer* w = nullptr;
    const int rc = writer_of(run, &w);
    if (rc != 0) return rc;
    return log_event(run, w, text_of(kind), text_of(key), {text, text_bytes}, time_ns);
}

TALLY_API int tally_rewind(tally_run* run, int64_t fork_step) {
    if (run->disabled) return 0;
    Writer* w = nullptr;
    int rc = writer_of(run, &w);
    if (rc != 0) return rc;
    ++w->attempt;
    ClientRing* r = w->scalars[0];
    std::uint8_t* at = claim(run, r, sizeof(ring::RewindBody), &rc);
    if (at == nullptr) {
        --w->attempt;
        return rc != 0 ? rc : fault(run, -EAGAIN, "the ring is full%s");
    }
    const ring::RewindBody body{fork_step};
    std::memcpy(at, &body, sizeof body);
    publish(r, meta_of(w, ring::RecordKind::rewind, nullptr, 0));
    return 0;
}

TALLY_API int tally_flush(tally_run* run, int level, int64_t timeout_ns) {
    if (level < TALLY_DISK || level > TALLY_STORE) return fault(run, -EINVAL, "flush level: disk, receiver or store%s");
    if (run->disabled) return 0;
    const int rc = wait_all(run, level, timeout_ns);
    return rc == 0 ? 0 : fault(run, rc, "not there yet: %s", level == TALLY_DISK ? "disk" : level == TALLY_RECEIVER ? "receiver" : "store");
}

TALLY_API int tally_progress(tally_run* run, tally_progress_info* info) {
    if (info == nullptr || info->size < sizeof(tally_progress_info)) return fault(run, -EINVAL, "tally_progress_info.size%s");
    const size_t size = info->size;
    *info = tally_progress_info{};
    info->size = size;
    if (run->disabled) return 0;
    pthread_mutex_lock(&run->mutex);
    each_ring(run, [info](ClientRing* r) {
        const ring::ProducerPart& p = r->pages.control->producer;
        info->points_logged += p.points.load(std::memory_order_relaxed);
        info->points_dropped += p.dropped_points.load(std::memory_order_relaxed);
        info->bytes_logged += p.head.load(std::memory_order_relaxed);
        info->bytes_durable += level_word(r, TALLY_DISK);
        info->bytes_received += level_word(r, TALLY_RECEIVER);
        info->bytes_stored += level_word(r, TALLY_STORE);
        ++info->rings;
        info->rings_attached += r->state.load() == 2 ? 1 : 0;
        info->rings_refused += r->state.load() == 3 ? 1 : 0;
    });
    info->connected = run->attacher->connected() ? 1 : 0;
    pthread_mutex_unlock(&run->mutex);
    return 0;
}

}  // extern "C"
