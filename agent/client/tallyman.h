/* SPDX-License-Identifier: Apache-2.0
 *
 * What     Logging from a trainer to the tallyman agent of this host: a memory copy per call, no waiting on disk, socket
 *          or lock. C17; libtallyman.so needs libc only.
 * Flow     trainer -> this library -> shared-memory rings -> agent -> spool -> uplink -> store.
 * Threads  A run handle may be used from any thread: each thread that logs gets a producer and rings of its own on its
 *          first call, closed with the run. tally_run_close must be the last call on a handle, from one thread,
 *          while no other thread is inside a call. Not to be called from signal handlers.
 * Fork     A child may go on using the handle: it becomes a producer of its own on its first call.
 * Returns  0 (or an id >= 0), or a negative errno; tally_last_error() has a sentence. After registration the log
 *          calls neither allocate nor lock; they enter the kernel only to wake a sleeping agent (one call in 10 s of
 *          silence), when the ring passes half full, and to wait when it is full.
 * Errors   -EINVAL    an argument makes no sense                  -ECANCELED the agent refused this ring for good
 *          -EAGAIN    ring full, on_full = TALLY_FULL_RAISE       -ENOSPC    a ring budget of the agent is used up
 *          -E2BIG     does not fit a quarter of the ring          -EPERM     the agent refused the ring or the peer
 *          -ETIMEDOUT flush or close: not there yet               -ENOMEM    no memory for a ring
 *          -EBUSY     a claim is open on this block               -ENOENT    unknown series or block
 *          A full ring under TALLY_FULL_BLOCK or TALLY_FULL_DROP is not an error: what was dropped is counted, shipped
 *          as a gap, and shown by tally_progress.
 *
 *   tally_run* run;
 *   tally_run_options o = TALLY_RUN_OPTIONS_INIT;
 *   o.project = "ant";
 *   if (tally_run_open(&o, &run) < 0) puts(tally_last_error(NULL));
 *   int loss = tally_series(run, "train/loss", TALLY_F64);
 *   tally_log_f64(run, loss, step, 0.25);
 *   const char* names[] = {"reward", "ep_len"};
 *   tally_block_options b = TALLY_BLOCK_OPTIONS_INIT;
 *   b.metrics = 2; b.names = names; b.dtype = TALLY_F32; b.env_count = 50000;
 *   int block = tally_block_open(run, &b);
 *   tally_block_log_matrix(run, block, step, matrix);      // float[2][50000]
 *   tally_run_close(run, 0);
 */
#ifndef TALLYMAN_H
#define TALLYMAN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(TALLY_BUILDING_SHARED)
#define TALLY_API __attribute__((visibility("default")))
#else
#define TALLY_API
#endif

typedef struct tally_run tally_run;

enum tally_dtype {
    TALLY_F16 = 1, TALLY_BF16 = 2, TALLY_F32 = 3, TALLY_F64 = 4,
    TALLY_I8 = 5, TALLY_I16 = 6, TALLY_I32 = 7, TALLY_I64 = 8,
    TALLY_U8 = 9, TALLY_U16 = 10, TALLY_U32 = 11, TALLY_U64 = 12,
    TALLY_BOOL = 13
};

enum tally_on_full {
    TALLY_FULL_BLOCK = 0, /* wait at most block_timeout_ns in all until space has been seen again, then drop and count */
    TALLY_FULL_DROP = 1,  /* drop and count at once */
    TALLY_FULL_RAISE = 2  /* count, and return -EAGAIN */
};

enum tally_mode {
    TALLY_MODE_DEFAULT = 0, /* TALLYMAN_MODE ("online" or "disabled"), else online */
    TALLY_MODE_ONLINE = 1,
    TALLY_MODE_DISABLED = 2 /* every call succeeds and does nothing */
};

enum tally_level {
    TALLY_DISK = 1,     /* the agent synced it to its spool */
    TALLY_RECEIVER = 2, /* the far end synced it */
    TALLY_STORE = 3     /* it is queryable */
};

#define TALLY_NO_FORK INT64_MAX

/* NULL and 0 mean: not given. An argument wins over the environment (TALLYMAN_SOCKET, _PROJECT, _NAME, _RUN_ID, _MODE,
 * _DISABLED), which wins over the default. */
typedef struct tally_run_options {
    size_t size;             /* sizeof(tally_run_options) */
    const char* socket;      /* default /run/tallyman/agent.sock */
    const char* project;     /* at most 256 bytes of UTF-8, as name, role and metric names */
    const char* name;
    const char* run_id;      /* 1-128 of [A-Za-z0-9_.-]; default 12 random characters */
    const char* role;        /* default $RANK */
    const char* labels_json; /* a JSON object, at most 16 KiB */
    const char* config_json; /* shipped as an event of kind "config" */
    const char* continues;   /* UUID of the producer that this one resumes */
    int64_t fork_step;       /* first step that the continued history loses; TALLY_NO_FORK = none */
    uint32_t producers;      /* how many producers the run will have; 0 = not declared */
    int on_full;             /* enum tally_on_full */
    int64_t block_timeout_ns; /* default 1 s */
    int64_t attach_timeout_ns; /* how long to wait for the agent's answer when it is there; default 2 s */
    int64_t close_timeout_ns;  /* how long tally_run_close waits for the disk; default 10 s, -1 = do not wait */
    int mode;                /* enum tally_mode */
} tally_run_options;
#define TALLY_RUN_OPTIONS_INIT {sizeof(tally_run_options), 0, 0, 0, 0, 0, 0, 0, 0, TALLY_NO_FORK, 0, 0, 0, 0, 0, 0}

/* Opens a run as a new producer. The agent need not be there yet: records wait in the ring. When it is there and refuses
 * the ring, this fails with -ENOSPC, -ENOMEM or -EPERM, and tally_last_error(NULL) names the limit. */
TALLY_API int tally_run_open(const tally_run_options* options, tally_run** run);
/* CLOSE on all rings of this process's producers, then waits close_timeout_ns for the disk. Frees the handle always;
 * -ETIMEDOUT when the agent has not taken everything: an attached agent goes on reading, without one it is lost. */
TALLY_API int tally_run_close(tally_run* run, int exit_code);
TALLY_API const char* tally_run_id(const tally_run* run);
/* The last failure on this handle; with NULL: of the last tally_run_open that failed in this process. Never NULL. */
TALLY_API const char* tally_last_error(const tally_run* run);

/* ---- scalars ---------------------------------------------------------------------------------------------------- */

/* The id of a metric; the same (name, dtype) gives the same id. A metric may have series of several dtypes. */
TALLY_API int tally_series(tally_run* run, const char* name, int dtype);
/* Converted to the series' dtype; integers that do not fit wrap, floats saturate. time_ns 0 = now. */
TALLY_API int tally_log_f64(tally_run* run, int series, int64_t step, double value);
TALLY_API int tally_log_i64(tally_run* run, int series, int64_t step, int64_t value);
/* The value's own bits, zero-extended. */
TALLY_API int tally_log_bits(tally_run* run, int series, int64_t step, uint64_t bits);

typedef struct tally_at {
    int64_t time_ns;  /* 0 = now */
    int64_t rl_step;
    int has_rl_step;
} tally_at;
TALLY_API int tally_log_f64_at(tally_run* run, int series, int64_t step, double value, const tally_at* at);
TALLY_API int tally_log_i64_at(tally_run* run, int series, int64_t step, int64_t value, const tally_at* at);
TALLY_API int tally_log_bits_at(tally_run* run, int series, int64_t step, uint64_t bits, const tally_at* at);

typedef struct tally_scalar {
    uint32_t series;
    uint32_t reserved; /* 0 */
    uint64_t bits;     /* the value's own bits, zero-extended */
} tally_scalar;
/* Values of one step in one record. */
TALLY_API int tally_log_many(tally_run* run, int64_t step, const tally_scalar* values, size_t count, const tally_at* at);
/* The bits of a number as a dtype stores it. */
TALLY_API uint64_t tally_bits_f64(int dtype, double value);
TALLY_API uint64_t tally_bits_i64(int dtype, int64_t value);

/* ---- blocks: metrics x environments ------------------------------------------------------------------------------- */

typedef struct tally_block_options {
    size_t size;
    uint32_t metrics;
    const char* const* names;
    int dtype;               /* of all metrics, where dtypes is NULL */
    const uint8_t* dtypes;   /* one per metric, or NULL */
    uint32_t env_first;
    uint32_t env_count;
} tally_block_options;
#define TALLY_BLOCK_OPTIONS_INIT {sizeof(tally_block_options), 0, 0, TALLY_F32, 0, 0, 0}
TALLY_API int tally_block_open(tally_run* run, const tally_block_options* options);

/* Where the values of one metric lie. */
typedef struct tally_values {
    const void* data;
    int dtype;           /* 0 = the metric's own; else converted on the way (uint16 into bf16: the bits are kept) */
    int64_t env_stride;  /* bytes from one environment (or row) to the next; 0 = contiguous */
    int64_t step_stride; /* bytes from one step to the next; 0 = contiguous */
} tally_values;

typedef struct tally_frame {
    size_t size;
    int64_t step;              /* of the first step */
    int64_t step_stride;       /* 0 = 1 */
    uint32_t steps;            /* 0 = 1 */
    uint32_t rows;             /* length of row_list */
    const uint32_t* row_list;  /* environments relative to env_first, any order, repeats allowed; NULL = all */
    const void* matrix;        /* [steps][metrics][N] of the metrics' own dtypes without padding, or NULL: */
    const tally_values* values; /* one per metric */
    tally_at at;
} tally_frame;
#define TALLY_FRAME_INIT {sizeof(tally_frame), 0, 0, 0, 0, 0, 0, 0, {0, 0, 0}}
TALLY_API int tally_block_log(tally_run* run, int block, const tally_frame* frame);
TALLY_API int tally_block_log_matrix(tally_run* run, int block, int64_t step, const void* matrix);

/* Space for one frame in the ring: values[m] receives the place of metric m, N contiguous values of its own dtype
 * (bool: bytes 0 or 1). Only frame->step, row_list, rows and at are used; one step. Then commit or abort, same thread. */
TALLY_API int tally_block_claim(tally_run* run, int block, const tally_frame* frame, void** values);
TALLY_API int tally_block_commit(tally_run* run, int block);
TALLY_API int tally_block_abort(tally_run* run, int block);

/* ---- everything else ----------------------------------------------------------------------------------------------- */

/* Episodes that ended at `step`; lengths are in steps, >= 0. step_stride 0 = 1. */
TALLY_API int tally_episodes(tally_run* run, int64_t step, int64_t step_stride, size_t count, const uint32_t* env,
                             const int64_t* episode, const int64_t* length, const double* ret, const tally_at* at);
TALLY_API int tally_event(tally_run* run, const char* kind, const char* key, const char* text, size_t text_bytes,
                          int64_t time_ns);
/* Opens the next attempt of the calling thread's producer: its history from fork_step on is superseded. */
TALLY_API int tally_rewind(tally_run* run, int64_t fork_step);

/* Waits until everything that this process has logged to the run reached the level. 0 = do not wait. */
TALLY_API int tally_flush(tally_run* run, int level, int64_t timeout_ns);

typedef struct tally_progress_info {
    size_t size;
    uint64_t points_logged;
    uint64_t points_dropped;
    uint64_t bytes_logged;   /* ring bytes, as the three below */
    uint64_t bytes_durable;
    uint64_t bytes_received;
    uint64_t bytes_stored;
    uint32_t rings;
    uint32_t rings_attached; /* accepted by the agent that is connected now */
    uint32_t rings_refused;
    uint32_t connected;      /* 1: the agent's socket is open */
} tally_progress_info;
TALLY_API int tally_progress(tally_run* run, tally_progress_info* info);

#ifdef __cplusplus
}
#endif
#endif /* TALLYMAN_H */
