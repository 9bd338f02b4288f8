/* plan/stream/stream.h - weights that stay in their files and are read while a model runs.
 *
 * With option memory_limit, host=BYTES, below the size of the weights, a session does not keep all of them in memory.
 * All large weights are then in mapped files: unpacked ones in the files of the model, packed ones
 * in a file of the cache (plan/packs/packs.h). The stream chooses the weights that stay in memory. A thread reads the
 * others ahead of the steps that need them, in the order of a run, and their pages are given back to the system when
 * the memory is needed for the next ones.
 *
 * Reading is only a matter of time: the files stay mapped, so weights are valid at any time, also those that a step
 * reads before weight_stream_enter() or after weight_stream_leave().
 *
 * Each weight is in memory completely or not at all, and all weights of a step are in memory at the same time. Divided
 * weights, such as the experts of a mixture, are the exception: a step asks for the parts that it reads
 * (stream_parts.c), and parts that were used recently stay in memory as long as there is room.
 * Functions are thread-safe unless the comment says otherwise. */
#ifndef PLAN_STREAM_H
#define PLAN_STREAM_H
#include "threads/run.h"
#include <stdbool.h>
#include <stdint.h>

struct weight_stream;
/* The weights that a step of a program reads. */
struct step_weights;

/* Weights below this size always stay in memory. */
enum { STREAM_MIN_BYTES = 1 << 16 };

/* NULL: out of memory. */
struct weight_stream *weight_stream_create(void);
/* Stops the thread. All step_weights have been removed. NULL is a no-op. */
void weight_stream_destroy(struct weight_stream *stream);

/* How a step reads certain weights. */
typedef enum stream_use {
    STREAM_ALL,  /* completely: they are read ahead */
    STREAM_FEW,  /* only a few of the elements, such as rows of a table: pages are read when they are used */
    STREAM_PARTS /* the parts that the step asks for; see weight_stream_divide() */
} stream_use;

/* Adds weights that a step reads, not as STREAM_PARTS, in a file mapping that exists until weight_stream_remove().
 * *inout_weights is NULL before the first ones. False: out of memory. */
bool weight_stream_add(struct weight_stream *stream, struct step_weights **inout_weights, const void *data,
                       uint64_t bytes, stream_use use);
/* Adds weights that consist of `count` equal parts, some of which a step reads, see inlay_ext_packs.divide. The weights
 * may have been added before, as weights that the step reads completely. False: out of memory. */
bool weight_stream_divide(struct weight_stream *stream, struct step_weights **inout_weights, const void *data,
                          uint64_t bytes, uint32_t count);
/* Sets the step's position in a run, counted from 0; repeated: a run executes it several times. Before
 * weight_stream_begin(). */
void weight_stream_place(struct weight_stream *stream, struct step_weights *weights, uint32_t position, bool repeated);
/* The step is released: the weights are not read again. NULL is a no-op. */
void weight_stream_remove(struct weight_stream *stream, struct step_weights *weights);

/* The largest sum of the weights of one step, and of one part of its divided weights: at least this much memory is
 * needed. */
uint64_t weight_stream_largest(struct weight_stream *stream);
/* Chooses the weights that stay in memory, which has room for `bytes` bytes of weights, and starts the thread if there
 * are others. Returns the bytes that the stream needs at any time: the weights that stay, and the weights of the
 * largest step. spare() returns how many further bytes the stream may use at the moment. */
uint64_t weight_stream_begin(struct weight_stream *stream, uint64_t bytes, uint64_t (*spare)(void *ctx), void *ctx);

/* Before a step: its weights are in memory when the function returns. INLAY_IO_ERROR: they cannot be read, because the
 * file was truncated or the disk failed. */
INLAY_NODISCARD inlay_status weight_stream_enter(struct weight_stream *stream, struct step_weights *weights,
                                                 inlay_diag *diag);
/* After a step, if weight_stream_enter() succeeded. */
void weight_stream_leave(struct weight_stream *stream, struct step_weights *weights);
/* For the runs of a session: reads parts of divided weights. stream may be NULL; then NULL. */
const run_parts *weight_stream_parts(const struct weight_stream *stream);
/* After a step that returned INLAY_IO_ERROR: sets the message if parts could not be read. */
void weight_stream_explain(struct weight_stream *stream, inlay_diag *diag);
/* Gives all pages back that no step uses. stream may be NULL. */
void weight_stream_trim(struct weight_stream *stream);

/* Sizes in bytes. Weights that several steps read count once. stream NULL: all 0. */
typedef struct stream_sizes {
    uint64_t resident;  /* weights that stay in memory */
    uint64_t streamed;  /* weights that are read in each run */
    uint64_t on_demand; /* tables and divided weights, of which only the used parts are read */
} stream_sizes;
stream_sizes weight_stream_sizes(struct weight_stream *stream);
/* The sizes of the weights of one step; weights NULL: all 0. */
stream_sizes weight_stream_sizes_of(struct weight_stream *stream, const struct step_weights *weights);

/* Nanoseconds that a run needs to read its streamed weights, at the rate of all reads so far; 0 before the first one.
 * stream may be NULL. */
double weight_stream_read_ns(struct weight_stream *stream);

/* In a child of fork(), where the thread does not exist and no run is in progress: steps read their weights themselves.
 * stream may be NULL. */
void weight_stream_inherit(struct weight_stream *stream);
#endif
