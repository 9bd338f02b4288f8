/* serve/base/board.h - the metrics of all processes of a server, in memory that they share.
 *
 * Each process changes its own part; /metrics and max_inflight_bytes use the sums. The metrics of a model belong to its
 * name and version, so that a reload continues them. A worker that replaces one that has crashed continues its
 * counters. */
#ifndef SERVE_BOARD_H
#define SERVE_BOARD_H
#include "serve/base/stats.h"
#include <pthread.h>
#include <stdbool.h>

/* Why the server refuses requests; labels of inlay_refused_total. */
#define REFUSED_LIST(X)                                                                                                \
    X(CONNECTIONS, "connections") /* all max_connections are in use */                                                 \
    X(BYTES, "inflight_bytes")                                                                                         \
    X(TOKEN, "token")             /* a token that the server does not have */                                          \
    X(CERTIFICATE, "certificate") /* not of an authority of tls_client_ca */                                           \
    X(HOST, "host")                                                                                                    \
    X(ORIGIN, "origin")
typedef enum refused_reason {
#define REFUSED_ENUM(name, label) REFUSED_##name,
    REFUSED_LIST(REFUSED_ENUM)
#undef REFUSED_ENUM
        REFUSED_COUNT
} refused_reason;

/* What became of spans; labels of inlay_spans_total. */
#define SPANS_LIST(X)                                                                                                  \
    X(SENT, "sent")                                                                                                    \
    X(DROPPED, "dropped") /* the queue was full */                                                                     \
    X(FAILED, "failed")   /* the collector did not take them */
typedef enum span_result {
#define SPANS_ENUM(name, label) SPANS_##name,
    SPANS_LIST(SPANS_ENUM)
#undef SPANS_ENUM
        SPANS_COUNT
} span_result;

enum { BOARD_MODELS = 4096, BOARD_NAME_BYTES = 136 };

/* The metrics of a process. */
typedef struct board_counts {
    /* Gauges: 0 once the process has ended. */
    atomic_uint_fast64_t pid;
    atomic_uint_fast64_t listens;                /* 1: it accepts connections */
    atomic_uint_fast64_t connections, exchanges; /* open; requests in progress */
    atomic_uint_fast64_t inflight_bytes;         /* of bodies and replies of requests in progress */
    atomic_uint_fast64_t runs, model_bytes, replaced_models;
    /* Counters, from `answers` on. */
    atomic_uint_fast64_t answers[6];                 /* number of replies by the first digit of their code */
    atomic_uint_fast64_t grpc_answers[17];           /* number of messages by their status of gRPC */
    atomic_uint_fast64_t loads[2];                   /* of models: failed, complete */
    atomic_uint_fast64_t received_bytes, sent_bytes; /* of connections, without TLS */
    atomic_uint_fast64_t ended_cpu_us;               /* CPU time of the processes that have ended here */
    atomic_uint_fast64_t refused[REFUSED_COUNT];
    atomic_uint_fast64_t spans[SPANS_COUNT]; /* of requests */
    atomic_uint_fast64_t copied_bytes;       /* of tensors that could not be used in place */
    atomic_uint_fast64_t moved_bytes;        /* of bodies, copied out of receive buffers */
    atomic_uint_fast64_t requests;           /* completed */
    atomic_uint_fast64_t trims;              /* how often unused memory was given back after large requests */
    atomic_uint_fast64_t memory_waits;       /* runs that waited until others had freed memory */
    atomic_uint_fast64_t lost_records;       /* of the access log and the trace file, not written or cut: a full disk */
} board_counts;

/* The metrics of one version of a model in a process. */
typedef struct board_model {
    /* Gauges: how often it is loaded, requests in its queue; texts being generated, texts that wait, and the bytes of
     * the states of texts being generated. */
    atomic_uint_fast64_t loaded, queued, running_texts, waiting_texts, text_bytes;
    model_stats stats;
} board_model;

struct board_process {
    _Alignas(64) board_counts counts;
    board_model models[BOARD_MODELS];
};

struct board_memory;   /* board.c */
struct rollout_record; /* rollouts.h */
struct board {
    struct board_memory *memory;
    struct rollout_record *rollouts;        /* [BOARD_ROLLOUTS] in it, guarded by board_lock() */
    atomic_uint_fast64_t *rollout_requests; /* [BOARD_ROLLOUTS] in it: requests without a version, of each */
    struct board_process *processes;        /* [count] in it */
    uint32_t count, own;                    /* own: index of this process */
    int fd;                                 /* of the memory; -1 = not shared */
    pthread_mutex_t lock;                   /* see board_lock() */
};

/* Creates the memory of `count` processes; this process is the first one, or their parent. Close it by board_close(),
 * after a failure, too. */
INLAY_NODISCARD inlay_status board_create(uint32_t count, struct board *out_board, inlay_diag *diag);
/* In a child: opens the memory, which the descriptor `fd` refers to, as process `own`. Takes the descriptor. */
INLAY_NODISCARD inlay_status board_open(int fd, uint32_t count, uint32_t own, struct board *out_board,
                                        inlay_diag *diag);
void board_close(struct board *board);
/* A process has ended, having used this CPU time: its gauges become 0. Called by the parent. */
void board_process_ended(struct board *board, uint32_t process, uint64_t cpu_us);

/* A version of a model is loaded. *out_index: of its metrics, which it shares with earlier loads of this version.
 * INLAY_LIMIT_EXCEEDED: BOARD_MODELS versions are loaded. */
INLAY_NODISCARD inlay_status board_add_model(struct board *board, const char *name, uint64_t version,
                                             uint32_t *out_index, inlay_diag *diag);
void board_remove_model(struct board *board, uint32_t index);
/* Whether another process that accepts connections has the version. */
bool board_others_have(struct board *board, const char *name, uint64_t version);
/* Locks what the processes change together: the list of models, and the rollouts. A process that ends unlocks it. Never
 * held during a run. */
void board_lock(struct board *board);
void board_unlock(struct board *board);
/* The sums of all processes. */
void board_sum(const struct board *board, board_counts *out);
void board_sum_model(const struct board *board, uint32_t index, board_model *out);

static inline board_counts *board_own(struct board *board)
{
    return &board->processes[board->own].counts;
}

static inline board_model *board_own_model(struct board *board, uint32_t index)
{
    return &board->processes[board->own].models[index];
}

static inline uint64_t board_others_inflight_bytes(const struct board *board)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < board->count; i++)
        if (i != board->own)
            bytes += atomic_load(&board->processes[i].counts.inflight_bytes);
    return bytes;
}
#endif
