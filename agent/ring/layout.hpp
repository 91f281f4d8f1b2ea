// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The bytes of a ring, shared by producer and consumer. LAYOUT.md is this file in prose.
// Flow    client writes, agent reads; the only words the agent writes are those of ConsumerPart.
// Threads One producer thread, one consumer thread, in different processes that do not trust each other.
// Limits  data area 64 KiB..256 MiB, power of two; record <= data_bytes / 4; registry <= 4 MiB.
//
// No libstdc++ beyond freestanding headers: the client library includes this.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tally::ring {

inline constexpr std::uint64_t magic = 0x31474E52'594C4154ULL;  // "TALYRNG1" as bytes in memory
inline constexpr std::uint32_t layout_version = 1;
inline constexpr std::uint32_t control_bytes = 8192;
inline constexpr std::uint64_t data_bytes_min = 64 * 1024;
inline constexpr std::uint64_t data_bytes_max = 256ULL << 20;
inline constexpr std::uint32_t registry_bytes_max = 4U << 20;
inline constexpr std::uint32_t record_align = 8;
inline constexpr std::uint32_t metrics_max = 65535;      // in one block layout
inline constexpr std::uint32_t envs_max = 1U << 30;      // in one block layout
inline constexpr std::uint32_t drop_slots = 64;

// File of the memfd: [data: data_bytes][control: 8192][registry: registry_bytes, multiple of 4096].
// Data first, so that it begins at a huge-page boundary.

enum class RingKind : std::uint32_t { scalar = 1, block = 2 };

// Written by the client before the ring is offered, constant afterwards.
struct IdentityPart {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t control_bytes;
    std::uint64_t data_bytes;
    std::uint32_t registry_bytes;
    RingKind kind;
    std::uint8_t ring_uuid[16];
    std::uint8_t producer_uuid[16];
    std::uint32_t pid;
    std::uint32_t tid;
    std::int64_t opened_ns;      // wall clock
    std::uint8_t reserved[48];
};
static_assert(sizeof(IdentityPart) == 128);

// Written by the producer.
struct ProducerPart {
    std::atomic<std::uint64_t> head;            // release: bytes published since creation; never wraps
    std::atomic<std::uint64_t> records;         // published records
    std::atomic<std::uint64_t> points;          // points in published records
    std::atomic<std::uint64_t> dropped_points;  // points the full-ring policy dropped
    std::atomic<std::uint32_t> registry_used;   // release: bytes of the registry that are complete
    std::atomic<std::uint32_t> closed;          // 1: finish() was called, nothing follows head
    std::atomic<std::uint32_t> flush_asked;     // bumped by flush(); the agent commits early
    std::atomic<std::uint32_t> store_asked;     // bumped by flush("store"); an early batch cut is asked for
    std::uint8_t reserved[80];
};
static_assert(sizeof(ProducerPart) == 128);

// Written by the agent. The producer takes them as advice and checks tail <= head.
struct ConsumerPart {
    std::atomic<std::uint64_t> tail;      // durable: bytes the spool has committed; their space is free
    std::atomic<std::uint64_t> received;  // bytes every parcel of which a receiver acknowledged
    std::atomic<std::uint64_t> stored;    // bytes every parcel of which is in the sink
    std::atomic<std::uint32_t> progress;  // futex word, bumped after any of the three moves
    std::atomic<std::uint32_t> asleep;    // 1: the agent polls no more; write the eventfd after publishing
    std::atomic<std::uint32_t> attached;  // 1 while an agent serves this ring
    std::atomic<std::uint32_t> refused;   // Refusal code of the attach handshake, 0 when none
    std::uint8_t reserved[84];
};
static_assert(sizeof(ConsumerPart) == 128);

// What a producer dropped, by block and step range. A slot belongs to the producer; `points` is written last.
// When all slots are used the last one widens: block = UINT32_MAX, steps the hull.
struct DropSlot {
    std::uint32_t block;      // block id of the registry; 0 for scalars
    std::uint32_t reason;     // DropReason
    std::int64_t step_first;
    std::int64_t step_last;
    std::atomic<std::uint64_t> points;
};
static_assert(sizeof(DropSlot) == 32);
enum class DropReason : std::uint32_t { ring_full = 1, record_too_big = 2, registry_full = 3 };

struct Control {
    IdentityPart identity;  // offset 0
    ProducerPart producer;  // 128
    ConsumerPart consumer;  // 256
    std::atomic<std::uint32_t> drops_used;
    std::uint8_t reserved0[124];
    DropSlot drops[drop_slots];  // 512
    std::uint8_t reserved1[control_bytes - 512 - drop_slots * sizeof(DropSlot)];
};
static_assert(sizeof(Control) == control_bytes);
static_assert(offsetof(Control, producer) == 128 && offsetof(Control, consumer) == 256);
static_assert(offsetof(Control, drops) == 512);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

// ---- records in the data area -------------------------------------------------------------------------------

enum class RecordKind : std::uint16_t {
    frame = 1,     // FrameBody: a block's values
    scalars = 2,   // ScalarBody
    episodes = 3,  // EpisodeBody
    event = 4,     // EventBody
    rewind = 5,    // RewindBody
    close = 6,     // CloseBody; the last record of the producer's scalar ring
    file = 7,      // reserved for chunks of files
};
// Unknown kinds with `optional` set are skipped and counted; without it the ring is refused from there on.
enum RecordFlags : std::uint16_t { flag_has_rl_step = 1, flag_optional = 2 };

struct RecordHeader {
    std::uint32_t bytes;  // header, body and padding; multiple of 8, <= data_bytes / 4
    RecordKind kind;
    std::uint16_t flags;
    std::uint64_t number;       // 1, 2, 3, ... within the ring
    std::uint64_t points_total;  // points published on this ring up to and with this record
    std::int64_t time_ns;
    std::int64_t rl_step;  // valid if flag_has_rl_step, else 0
    std::uint32_t attempt;
    std::uint32_t reserved;
};
static_assert(sizeof(RecordHeader) == 48 && std::is_trivially_copyable_v<RecordHeader>);

// frame: FrameBody, then u32 row[rows] padded to 8, then for each of `steps` steps, for each metric of
// [metric_first, metric_first + metrics): N values of its dtype, each such vector padded to 8 bytes.
// N = rows if rows_listed, else the block's env_count. A large frame is cut by steps, then by metrics, into several
// of these records; each stands alone.
struct FrameBody {
    std::uint32_t block;
    std::uint32_t metric_first;
    std::uint32_t metrics;
    std::uint32_t steps;
    std::int64_t step_first;
    std::int64_t step_stride;  // >= 1; 1 when steps == 1
    std::uint32_t rows;        // length of the row list; 0 when dense
    std::uint32_t rows_listed;  // 1: a row list is present (it may be empty), 0: dense
};
static_assert(sizeof(FrameBody) == 40);

// scalars: ScalarBody, then ScalarValue[count]
struct ScalarBody {
    std::int64_t step;
    std::uint32_t count;
    std::uint32_t reserved;
};
static_assert(sizeof(ScalarBody) == 16);
struct ScalarValue {
    std::uint32_t series;  // id of a RegistrySeries of this ring
    std::uint32_t reserved;
    std::uint64_t bits;  // the value's own bits, zero-extended
};
static_assert(sizeof(ScalarValue) == 16);

// episodes: EpisodeBody, then u32 env[count] padded to 8, i64 episode[count], i64 length[count], f64 ret[count].
// An episode's last step is `step`, its first is step - (length - 1) * step_stride.
struct EpisodeBody {
    std::int64_t step;
    std::int64_t step_stride;
    std::uint32_t count;
    std::uint32_t reserved;
};
static_assert(sizeof(EpisodeBody) == 24);

// event: EventBody, then kind, key, text without terminators
struct EventBody {
    std::uint16_t kind_bytes;
    std::uint16_t key_bytes;
    std::uint32_t text_bytes;
};
static_assert(sizeof(EventBody) == 8);

// rewind: the record's header already carries the new attempt
struct RewindBody {
    std::int64_t fork_step;
};
static_assert(sizeof(RewindBody) == 8);

struct CloseBody {
    std::int32_t exit_code;
    std::uint32_t rings_used;  // rings of this producer that hold or held a record, this one included; 0: not said
};
static_assert(sizeof(CloseBody) == 8);

// ---- registry: append-only descriptions, [0, registry_used) ----------------------------------------------------

enum class RegistryKind : std::uint16_t {
    producer = 1,  // always the first entry
    block = 2,     // exactly one in a block ring
    series = 3,    // any number in a scalar ring
};

// Every entry starts with this; multiple of 8 bytes.
struct RegistryHeader {
    std::uint32_t bytes;
    RegistryKind kind;
    std::uint16_t flags;
};
static_assert(sizeof(RegistryHeader) == 8);

// producer: then u16-length-prefixed texts in this order: run, project, name, role, host, labels (JSON object),
// continues (UUID text of the producer this one resumes, or empty).
struct RegistryProducer {
    std::int64_t run_created_ns;  // 0: unknown, the producer's opening time counts
    std::int64_t fork_step;       // INT64_MAX when the producer forks nothing
    std::uint32_t attempt;        // 0 for a new producer
    std::uint32_t producers;      // declared number of producers of the run; 0 = not declared
};
static_assert(sizeof(RegistryProducer) == 24);

// block: then metrics x (u8 dtype, u16-length-prefixed name)
struct RegistryBlock {
    std::uint32_t block;  // >= 1, unique within the producer
    std::uint32_t env_first;
    std::uint32_t env_count;
    std::uint32_t metrics;
};
static_assert(sizeof(RegistryBlock) == 16);

// series: then u16-length-prefixed name
struct RegistrySeries {
    std::uint32_t series;  // 0, 1, 2, ... in the order of the registry
    std::uint8_t dtype;
    std::uint8_t reserved[3];
};
static_assert(sizeof(RegistrySeries) == 8);

// ---- attach handshake over the SEQPACKET socket ----------------------------------------------------------------

inline constexpr std::uint32_t attach_magic = 0x41595454;  // "TTYA"
enum class AttachKind : std::uint16_t {
    hello = 1,   // client -> agent, first; cookie = protocol features (0)
    offer = 2,   // client -> agent, with two descriptors: the ring's memfd, an eventfd that wakes the agent
    accept = 3,  // agent -> client; cookie of the offer
    refuse = 4,  // agent -> client; code and a sentence that names the budget or the fault
    bye = 5,     // client -> agent: rings of this connection are finished, a following end is no death
};
enum class Refusal : std::uint32_t {
    none = 0,
    version = 1,
    seals = 2,         // SHRINK|GROW|SEAL are not all set
    size = 3,          // file size does not fit the identity part
    identity = 4,      // magic, run id, names or registry make no sense
    user_budget = 5,   // [ring] user_bytes_max
    total_budget = 6,  // [ring] total_bytes_max
    memory = 7,        // fallocate or mmap failed: the cgroup or the machine is out of memory
    owner = 8,         // the memfd belongs to another user
    draining = 9,      // the agent is stopping; offer again later
};
struct AttachMessage {
    std::uint32_t magic;
    std::uint16_t version;
    AttachKind kind;
    std::uint64_t cookie;
    Refusal code;
    std::uint32_t text_bytes;
    char text[232];
};
static_assert(sizeof(AttachMessage) == 256 && std::is_trivially_copyable_v<AttachMessage>);

}  // namespace tally::ring
